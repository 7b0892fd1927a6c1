//! This machine's own idle CPUs, recorded while it sleeps and wakes: against the kernel's own counters of cpuidle, and
//! against its governor's rule. Nothing of the machine is changed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::bench::{Bench, haltwise, told};

/// Entries into idle states of all CPUs, and the microseconds there.
fn cpuidle() -> Option<(u64, u64)> {
    let number = |path: &Path| -> Option<u64> {
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().parse().ok()
    };
    let mut sums = (0, 0);
    let mut any = false;
    for cpu in 0..1024 {
        for state in 0..16 {
            let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
            let dir = PathBuf::from(dir);
            let Some(entered) = number(&dir.join("usage")) else {
                break;
            };
            sums = (sums.0 + entered, sums.1 + number(&dir.join("time"))?);
            any = true;
        }
    }
    any.then_some(sums)
}

fn json(arguments: &[&str], capture: &Path, code: i32) -> Value {
    let output = Command::new(haltwise())
        .args(arguments)
        .arg(capture)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", told(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

#[test]
fn idle_periods_of_this_machine_are_those_of_its_own_counters_and_as_its_governor_has_them() {
    let Some(bench) = Bench::set_up() else { return };
    let capture = bench.path("idle");
    let before = cpuidle();
    let output = Command::new(haltwise())
        .args(["record", "--guest", "-o"])
        .arg(&capture)
        .args(["--", "sh", "-c"])
        .arg("for n in $(seq 200); do sleep 0.005; done")
        .output()
        .unwrap();
    let after = cpuidle();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let report = json(&["report", "--json"], &capture, 0);
    assert_eq!(report["recording"]["side"], "guest");
    assert_eq!(report["recording"]["lost"], 0);
    let account = &report["vms"][0]["account"];
    let halts = account["halts"].as_u64().unwrap();
    let halted_us = account["halted_ns"].as_u64().unwrap() / 1_000;
    if halts < 50 {
        println!("skipped: other work leaves this machine no idle time");
        return;
    }
    // The counters are read around the recorder's start and end, so that they hold more.
    if let Some((before, after)) = before.zip(after) {
        let counted = (after.0 - before.0, after.1 - before.1);
        assert!(halts <= counted.0, "{halts} of {counted:?}");
        assert!(
            halted_us <= counted.1 + counted.1 / 100,
            "{halted_us} of {counted:?}"
        );
    } else {
        println!("skipped: this kernel has no cpuidle: its counters");
    }
    let governor = "/sys/devices/system/cpu/cpuidle/current_governor_ro";
    if std::fs::read_to_string(governor).is_ok_and(|name| name.trim() == "haltpoll") {
        let verified = json(&["verify", "--json"], &capture, 0);
        assert_eq!(verified["rule"]["polls"], "guest");
        assert_eq!(verified["differences"], 0, "{verified}");
        assert!(verified["checked"].as_u64() > Some(halts / 2), "{verified}");
    } else {
        println!("skipped: the governor is not haltpoll: verify");
        json(&["verify", "--json"], &capture, 3);
    }
}

#[test]
fn what_only_a_host_has_is_refused_of_a_guest() {
    let Some(bench) = Bench::set_up() else { return };
    let capture = bench.path("idle");
    let output = Command::new(haltwise())
        .args(["record", "--guest", "--duration", "200ms", "-o"])
        .arg(&capture)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let explained = Command::new(haltwise())
        .arg("explain")
        .arg(&capture)
        .output()
        .unwrap();
    assert_eq!(explained.status.code(), Some(0), "{}", told(&explained));
    let output = Command::new(haltwise())
        .arg("calibrate")
        .arg(&capture)
        .output()
        .unwrap();
    let said = told(&output);
    assert!(said.contains("of a guest's own idle CPUs"), "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    for options in [&["--mode", "counts"][..], &["--exits"], &["--vm", "1"]] {
        let output = Command::new(haltwise())
            .args(["record", "--guest", "-o"])
            .arg(bench.path("none"))
            .args(options)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(!bench.path("none").exists(), "{options:?}");
    }
}
