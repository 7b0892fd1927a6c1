//! Rules of `explain` on guests of the lab that behave as the rule has it, and on one that does not.
//!
//! Storms only: what a rule says of a rhythm depends on how busy the machine is, and is held on captures
//! (golden tests).

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::bench::{Bench, haltwise, told};

/// The rules that fire on the lab's VM.
fn rules(lab: &[&str]) -> Option<BTreeSet<String>> {
    let bench = Bench::set_up()?;
    bench.record(
        &["--exits=pio,mmio"],
        &[lab, &["--name", "subject"]].concat(),
    );
    let output = Command::new(haltwise())
        .args(["explain", "--json", "--vm", "subject"])
        .arg(bench.path("capture"))
        .output()
        .unwrap();
    // Partial where a recorder of another test took the machine.
    assert!(
        matches!(output.status.code(), Some(0 | 5)),
        "{}",
        told(&output)
    );
    let page: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = page["findings"].as_array().unwrap().iter();
    let ids = findings.map(|it| it["rule"].as_str().unwrap().to_owned());
    Some(ids.collect())
}

#[test]
fn a_port_that_a_guest_polls_and_memory_that_it_draws_into_are_found() {
    let Some(polling) = rules(&["port-poll", "--rounds", "60"]) else {
        return;
    };
    assert!(polling.contains("port-polling"), "{polling:?}");
    assert!(!polling.contains("emulated-framebuffer"), "{polling:?}");
    assert!(!polling.contains("halts-not-observable"), "{polling:?}");
    let drawing = rules(&["framebuffer", "--rounds", "40"]).unwrap();
    assert!(drawing.contains("emulated-framebuffer"), "{drawing:?}");
    assert!(!drawing.contains("port-polling"), "{drawing:?}");
}

#[test]
fn a_guest_that_only_answers_is_no_storm() {
    let Some(rules) = rules(&["pingpong", "--rounds", "200", "--gap", "fixed:2ms"]) else {
        return;
    };
    for storm in [
        "port-polling",
        "emulated-framebuffer",
        "windows-without-stimer",
    ] {
        assert!(!rules.contains(storm), "{rules:?}");
    }
}
