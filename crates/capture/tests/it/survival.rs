//! A recorder that is killed, and a disk that fills up: what was appended is still there.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use haltwise_capture::capture::Capture;
use haltwise_capture::convert::convert;
use haltwise_capture::error::CaptureWriteError;
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
#[ignore = "runs inside `a_full_disk_keeps_what_was_written`"]
fn fill_a_small_disk() {
    let Some(dir) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let dir = Path::new(&dir).join("capture");
    let mut recording = Recording::create(&dir, info()).unwrap();
    let (mut written, error) = loop {
        match recording.append(&some_halts(1000)) {
            Ok(()) => {}
            Err(error) => break (recording_rows(&dir), error),
        }
    };
    let text = format!("{:#}", anyhow::Error::from(error));
    assert!(text.starts_with("append to table halts: write "), "{text}");
    assert!(
        text.contains(&format!("halts.arrows: {written} rows are safe")),
        "{text}"
    );
    assert!(
        text.contains("1000 are not written") && text.contains("No space left"),
        "{text}"
    );
    assert!(written > 0);
    // The file ends with a whole batch, and a flush that fits is taken again.
    assert_eq!(Capture::open(&dir).unwrap().notes(), [Note::StillRecording]);
    // (What waited since may fail, and be the error.)
    drop(recording.append(&some_halts(1)));
    let more = recording_rows(&dir) - written;
    assert!(more <= 1, "{more}");
    written += more;
    // Finishing needs room for Parquet, of which there is hardly any.
    match recording.finish(ending()) {
        Ok(summary) => assert_eq!(summary.tables["halts"].rows, written),
        Err(CaptureWriteError::NotConverted { summary, source }) => {
            assert_eq!(summary.tables["halts"].rows, written);
            let disk = matches!(
                *source,
                CaptureWriteError::Parquet { .. } | CaptureWriteError::Io { .. }
            );
            assert!(disk, "{source:?}");
            assert_eq!(Capture::open(&dir).unwrap().notes()[0], Note::Cut);
        }
        Err(error) => panic!("{error:?}"),
    }
    let capture = Capture::open(&dir).unwrap().as_stored();
    assert_eq!(
        capture.halts().unwrap().map(Result::unwrap).count() as u64,
        written
    );
    // What was not written is reported, though there was no room for another byte, and counted.
    let lost = capture.lost_by_place().unwrap()["write of table halts"];
    assert!(lost >= 1000, "{lost}");
    let counts = capture.halt_counts().unwrap();
    assert_eq!(counts.map(|row| row.unwrap().halts).sum::<u64>(), lost);
}

fn recording_rows(dir: &Path) -> u64 {
    Capture::open(dir).unwrap().rows(Table::Halts).unwrap()
}

#[test]
#[expect(clippy::print_stdout, reason = "says why a test was skipped")]
fn a_full_disk_keeps_what_was_written() {
    // A user and mount namespace of its own: needs no root, and leaves nothing mounted.
    let own_mounts = ["--user", "--map-root-user", "--mount"];
    let mount = "mount -t tmpfs -o size=400k none \"$HALTWISE_TEST_DIRECTORY\"";
    let dir = tempfile::tempdir().unwrap();
    let run = |script: &str, arguments: &[String]| {
        Command::new("unshare")
            .args(own_mounts)
            .args(["sh", "-c", script, "sh"])
            .args(arguments)
            .env(DIRECTORY, dir.path())
            .output()
    };
    match run(mount, &[]) {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            return println!(
                "skipped: no small file system can be mounted: {}",
                why.trim()
            );
        }
        Err(error) => return println!("skipped: unshare: {error}"),
    }
    let output = run(
        &format!("{mount} && exec \"$@\""),
        &inner("survival::fill_a_small_disk"),
    );
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[test]
#[ignore = "runs inside `a_limit_on_file_size_leaves_counts`"]
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
            let text = format!("{:#}", anyhow::Error::from(error));
            assert!(text.contains("File too large"), "{text}");
            failures += 1;
        }
        flushes += 1;
    }
    assert_eq!((failures, flushes), (1, 60));
    // The table of halts is full, and the others are not: counts of seconds that are over are there by now.
    let read = Capture::open(dir).unwrap();
    let counted = |capture: &Capture| -> u64 {
        let counts = capture.halt_counts().unwrap();
        counts.map(|row| row.unwrap().halts).sum()
    };
    let rows = read.rows(Table::Halts).unwrap();
    assert!(rows + counted(&read) >= 58_000, "{rows}");
    let summary = recording.finish(ending()).unwrap();
    let capture = Capture::open(dir).unwrap();
    let halts = 60_000 - rows;
    assert_eq!(capture.notes(), [Note::AsCounts { halts }]);
    assert_eq!(rows + counted(&capture), 60_000);
    assert_eq!(summary.lost["write of table halts"], 60_000 - rows);
    let lost = capture.lost().unwrap().map(Result::unwrap);
    assert_eq!(lost.map(|lost| lost.count).sum::<u64>(), 60_000 - rows);
    // Of each second.
    let seconds = capture.halt_counts().unwrap().count();
    assert!((10..31).contains(&seconds), "{seconds}");
}

#[test]
fn a_limit_on_file_size_leaves_counts() {
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
