//! A recorder that is killed: what was appended is still there. `recording::simulation` has disks that are full.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use haltwise_capture::capture::Capture;
use haltwise_capture::convert::convert;
use haltwise_capture::note::Note;
use haltwise_capture::recording::Recording;
use haltwise_capture::table::Table;

use crate::common::{info, some_halts};

/// Where a test that runs in a process of its own finds its directory.
const DIRECTORY: &str = "HALTWISE_TEST_DIRECTORY";

#[test]
#[ignore = "runs inside `a_killed_recorder_loses_nothing`"]
#[expect(clippy::print_stdout, reason = "tells the test outside how far it is")]
fn record_until_killed() {
    let Some(dir) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let mut recording = Recording::create(Path::new(&dir), info()).unwrap();
    for flush in 1.. {
        recording.append(&some_halts(1000)).unwrap();
        println!("appended {flush}");
    }
}

#[test]
fn a_killed_recorder_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let inner = "survival::record_until_killed";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", inner, "--ignored", "--nocapture"])
        .env(DIRECTORY, dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = lines
        .map(Result::unwrap)
        .filter(|line| line.contains("appended"))
        .take(20)
        .count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(told, 20);

    let capture = Capture::open(dir.path()).unwrap().as_stored();
    assert_eq!(capture.notes()[0], Note::Cut);
    let rows = capture.rows(Table::Halts).unwrap();
    assert!(rows >= 20_000 && rows.is_multiple_of(1000), "{rows}");
    assert_eq!(
        capture.halts().unwrap().map(Result::unwrap).count() as u64,
        rows
    );
    assert_eq!(convert(dir.path()).unwrap().tables["halts"].rows, rows);
}
