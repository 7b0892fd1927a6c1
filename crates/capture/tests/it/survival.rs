//! A recorder that is killed, and a file that may not grow: what was appended is still there. `recording::simulation` has disks
//! that are full.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use haltwise_capture::capture::Capture;
use haltwise_capture::convert::convert;
use haltwise_capture::note::Note;
use haltwise_capture::recording::{Flush, Recording};
use haltwise_capture::table::Table;

use crate::common::{ending, info, some_halts};

/// Where a test that runs in a process of its own finds its directory.
const DIRECTORY: &str = "HALTWISE_TEST_DIRECTORY";

/// This very program, set to run one test that is ignored otherwise.
fn inner(test: &str) -> Vec<String> {
    let exe = std::env::current_exe().unwrap();
    let exe = exe.to_str().unwrap();
    [exe, "--exact", test, "--ignored", "--nocapture"]
        .map(str::to_owned)
        .to_vec()
}

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
    let command = inner("survival::record_until_killed");
    let mut child = Command::new(&command[0])
        .args(&command[1..])
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

#[test]
#[ignore = "runs inside `a_limit_on_file_size_loses_rows_and_counts_them`"]
fn record_beyond_the_limit() {
    let Some(dir) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let dir = Path::new(&dir);
    let mut recording = Recording::create(dir, info()).unwrap();
    let (mut failures, mut flushes) = (0, 0);
    for flush in 0..60 {
        // Half a second of halts, a second half a second later.
        let mut facts = some_halts(1000);
        for halt in &mut facts.halts {
            halt.start_ns += flush * 500_000_000;
        }
        if let Flush::Fails(error) = recording.record(&facts).unwrap() {
            // The file ends with a whole batch.
            let read = Capture::open(dir).unwrap();
            assert_eq!(read.notes(), [Note::StillRecording]);
            let safe = read.rows(Table::Halts).unwrap();
            let text = format!("{:#}", anyhow::Error::from(error));
            assert!(text.starts_with("append to table halts: write "), "{text}");
            let said = format!("halts.arrows: {safe} rows are safe, 1000 are not written");
            assert!(text.contains(&said), "{text}");
            assert!(text.contains("File too large"), "{text}");
            failures += 1;
        }
        flushes += 1;
    }
    assert_eq!((failures, flushes), (1, 60));
    // The table of halts is full, and the others are not: losses so far are there by now.
    let lost = |capture: &Capture| -> u64 {
        let lost = capture.lost().unwrap().map(Result::unwrap);
        lost.map(|lost| lost.count).sum()
    };
    let read = Capture::open(dir).unwrap();
    let rows = read.rows(Table::Halts).unwrap();
    assert_eq!(rows + lost(&read), 60_000, "{rows}");
    let summary = recording.finish(ending()).unwrap();
    let capture = Capture::open(dir).unwrap();
    assert_eq!(capture.notes(), []);
    assert_eq!(rows + lost(&capture), 60_000);
    let place = "disk refused rows of table halts";
    assert_eq!(summary.lost[place], 60_000 - rows);
}

#[test]
fn a_limit_on_file_size_loses_rows_and_counts_them() {
    let dir = tempfile::tempdir().unwrap();
    // In units of 512 or of 1024 bytes: enough for some of the halts. As haltwise does, it outlives the signal.
    let script = "trap '' XFSZ; ulimit -f 200 && exec \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .args(inner("survival::record_beyond_the_limit"))
        .env(DIRECTORY, dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}
