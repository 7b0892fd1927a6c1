//! `record -o - | report -`: what comes through the pipe is the capture.

use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::bench::{Bench, haltwise, told};

#[test]
fn a_capture_goes_through_a_pipe_whole() {
    let Some(bench) = Bench::set_up() else { return };
    let vm = bench.keep_halting("fixed:100us", &["--name", "piped"]);
    Bench::wait_for("piped");
    let temporary = bench.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let recorder = Command::new(haltwise())
        .args([
            "record",
            "--duration",
            "500ms",
            "-o",
            "-",
            "--vm",
            &vm.id().to_string(),
        ])
        .env("TMPDIR", &temporary)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(
        matches!(recorder.status.code(), Some(0 | 5)),
        "{recorder:?}"
    );
    let archive = bench.path("capture.tar");
    std::fs::write(&archive, &recorder.stdout).unwrap();
    let report = Command::new(haltwise())
        .args(["report", "-", "--json"])
        .env("TMPDIR", &temporary)
        .stdin(std::fs::File::open(&archive).unwrap())
        .output()
        .unwrap();
    assert!(
        matches!(report.status.code(), Some(0 | 5)),
        "{}",
        told(&report)
    );
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert!(
        report["host"]["account"]["halts"].as_u64() > Some(0),
        "{report}"
    );
    drop(vm.end(Signal::TERM));
    let left = std::fs::read_dir(&temporary).unwrap().count();
    assert_eq!(left, 0, "temporary directories are removed");
}
