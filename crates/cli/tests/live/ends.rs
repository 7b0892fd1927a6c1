//! However a recording ends, what was recorded is kept and nothing stays attached.

use std::process::{Command, Stdio};
use std::time::Duration;

use haltwise_capture::capture::Capture;
use rustix::process::Signal;

use crate::bench::{Bench, Running, haltwise, told};

/// BPF programs of ours in the kernel.
fn programs_of_ours() -> usize {
    libbpf_rs::query::ProgInfoIter::default()
        .filter(|program| program.name.to_string_lossy().starts_with("on_vcpu_wakeup"))
        .count()
}

/// A lab that keeps halting, and a recorder of it that has written something.
fn recorder(bench: &Bench) -> (Running, Running) {
    let lab = bench.keep_halting("fixed:200us", &[]);
    let recorder = Running::start(
        Command::new(haltwise())
            .args(["record", "--duration", "30s", "-o"])
            .arg(bench.path("capture"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let stream = bench.path("capture/halts.arrows");
    for _ in 0..200 {
        if std::fs::metadata(&stream).is_ok_and(|file| file.len() > 20_000) {
            return (lab, recorder);
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("nothing was written to {}", stream.display());
}

fn halts(bench: &Bench) -> (Capture, usize) {
    let capture = Capture::open(&bench.path("capture")).unwrap();
    let count = capture.halts().unwrap().map(Result::unwrap).count();
    (capture, count)
}

#[test]
fn sigterm_ends_a_recording_cleanly() {
    let Some(bench) = Bench::set_up() else { return };
    let (lab, recorder) = recorder(&bench);
    let output = recorder.end(Signal::TERM);
    lab.end(Signal::TERM);
    assert!(output.status.success(), "{}", told(&output));
    let (capture, halts) = halts(&bench);
    assert!(halts > 0);
    assert_eq!(capture.info().ended.as_ref().unwrap().by, "SIGTERM");
    assert!(capture.notes().is_empty(), "{:?}", capture.notes());
}

#[test]
fn after_kill_9_what_was_written_is_there_and_nothing_stays_attached() {
    let Some(bench) = Bench::set_up() else { return };
    let (lab, recorder) = recorder(&bench);
    recorder.end(Signal::KILL);
    lab.end(Signal::TERM);
    let (capture, halts) = halts(&bench);
    assert!(halts > 0);
    assert!(!capture.notes().is_empty(), "a cut capture must say so");
    let report = Command::new(haltwise())
        .arg("report")
        .arg(bench.path("capture"))
        .output();
    let report = report.unwrap();
    assert_eq!(report.status.code(), Some(5), "{}", told(&report));
}

#[test]
fn a_vm_that_dies_while_recorded_is_kept() {
    let Some(bench) = Bench::set_up() else { return };
    let (lab, recorder) = recorder(&bench);
    lab.end(Signal::KILL);
    let output = recorder.end(Signal::INT);
    assert!(output.status.success(), "{}", told(&output));
    let (capture, halts) = halts(&bench);
    assert!(halts > 0);
    assert!(!capture.info().roster.vms.is_empty());
}

#[test]
fn nothing_of_ours_is_left_in_the_kernel() {
    let Some(bench) = Bench::set_up() else { return };
    let before = programs_of_ours();
    bench.record(&[], &["pingpong", "--rounds", "100"]);
    // Other tests of this file may come and go meanwhile; ours must not add to them for good.
    for _ in 0..400 {
        if programs_of_ours() <= before {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("{} programs of ours, {before} before", programs_of_ours());
}

#[test]
fn a_directory_in_use_is_refused_before_anything_is_attached() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("precious"), "data").unwrap();
    let output = Command::new(haltwise())
        .args(["record", "-o"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("not empty") && said.contains("hint: "),
        "{said}"
    );
    assert_eq!(
        std::fs::read_to_string(dir.path().join("precious")).unwrap(),
        "data"
    );
}

#[test]
fn a_full_disk_ends_the_recording_with_a_reason_and_keeps_what_fits() {
    let Some(bench) = Bench::set_up() else { return };
    let disk = bench.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
        .arg(&disk)
        .status()
        .unwrap();
    if !mounted.success() {
        println!("skipped: no tmpfs can be mounted");
        return;
    }
    let output = Command::new(haltwise())
        .args(["record", "-o"])
        .arg(disk.join("capture"))
        .arg("--")
        .args(["sh", "-c", "exec \"$@\" >/dev/null", "sh"])
        .arg(haltwise().with_file_name("haltwise-lab"))
        .args([
            "run",
            "pingpong",
            "--duration",
            "20s",
            "--gap",
            "fixed:30us",
        ])
        .output()
        .unwrap();
    let kept = Capture::open(&disk.join("capture"))
        .map(|capture| capture.halts().unwrap().filter_map(Result::ok).count());
    let unmounted = Command::new("umount").arg(&disk).status().unwrap();
    assert!(unmounted.success());
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("No space left"), "{said}");
    assert!(kept.unwrap() > 0, "{said}");
}
