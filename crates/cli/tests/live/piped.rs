//! `record -o - | report -`: what comes through the pipe is the capture.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::bench::{Bench, haltwise, has_recorded, json, until_so};

#[test]
fn a_capture_goes_through_a_pipe_whole() {
    let Some(bench) = Bench::set_up() else { return };
    let vm = bench.keep_halting("fixed:100us", "piped");
    let temporary = bench.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let recorder = Command::new(haltwise())
        .args(["record", "--duration", "500ms", "-o", "-"])
        .args(["--vm", &vm.id().to_string()])
        .env("TMPDIR", &temporary)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    has_recorded(&recorder);
    let archive = bench.path("capture.tar");
    std::fs::write(&archive, &recorder.stdout).unwrap();
    let report = Command::new(haltwise())
        .args(["report", "-", "--json"])
        .env("TMPDIR", &temporary)
        .stdin(std::fs::File::open(&archive).unwrap())
        .output()
        .unwrap();
    has_recorded(&report);
    let report = json(&report);
    let halts = report["host"]["account"]["halts"].as_u64();
    assert!(halts > Some(0), "{report}");
    drop(vm.end(Signal::TERM));
    let left = std::fs::read_dir(&temporary).unwrap().count();
    assert_eq!(left, 0, "temporary directories are removed");
}

/// A recorder to a pipe without an end of its own, and where it keeps what it records.
fn endless(bench: &Bench, name: &str) -> (Child, PathBuf) {
    let temporary = bench.path(name);
    std::fs::create_dir(&temporary).unwrap();
    let recorder = Command::new(haltwise())
        .args(["record", "-o", "-"])
        .env("TMPDIR", &temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until_so("it records", || records(&temporary));
    (recorder, temporary)
}

/// Whether a capture is begun in a directory of this one.
fn records(temporary: &Path) -> bool {
    let mut made = std::fs::read_dir(temporary).unwrap();
    made.any(|it| it.unwrap().path().join("capture.json").exists())
}

/// Whether a process has this path in its command line.
fn is_named(path: &Path) -> bool {
    let wanted = path.to_str().unwrap().as_bytes();
    let processes = std::fs::read_dir("/proc").unwrap();
    let lines = processes.filter_map(|it| std::fs::read(it.unwrap().path().join("cmdline")).ok());
    lines
        .into_iter()
        .any(|line| line.windows(wanted.len()).any(|part| part == wanted))
}

#[test]
fn a_recording_to_a_pipe_ends_with_its_reader() {
    let Some(bench) = Bench::set_up() else { return };
    let (mut recorder, temporary) = endless(&bench, "unread");
    assert!(is_named(&temporary));
    drop(recorder.stdout.take());
    assert_eq!(recorder.wait().unwrap().code(), Some(5));
    assert!(!is_named(&temporary));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn a_recorder_to_a_pipe_does_not_outlive_who_started_it() {
    let Some(bench) = Bench::set_up() else { return };
    let (mut recorder, temporary) = endless(&bench, "killed");
    assert!(is_named(&temporary));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    until_so("the end of the recorder", || !is_named(&temporary));
}
