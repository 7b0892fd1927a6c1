//! Halts handled by the VMM: every HLT comes out, and the windows are the policy's own.

use haltwise_lab::exit::UserspaceExit;
use haltwise_lab::halt_loop::{HaltPolicy, windows_of};

use crate::lab::{kvm, lab, run};

#[test]
fn every_hlt_comes_out_and_is_handled_once() {
    let Some(()) = kvm() else { return };
    for policy in ["off", "fixed:always", "kvm:max=100us", "leader"] {
        let outcome = run(&format!(
            "pingpong --vcpus 2 --rounds 150 --gap exp:200us --halt-loop {policy}"
        ));
        assert_eq!(outcome.halt_loop.as_deref(), Some(policy));
        for vcpu in outcome.vcpus() {
            let handled = vcpu.user_halts.unwrap();
            let who = format!("{policy}: {vcpu:?}");
            assert_eq!((vcpu.halts, vcpu.interrupts), (151, 151), "{who}");
            assert_eq!(handled.halts, 151, "{who}");
            assert_eq!(vcpu.exits[&UserspaceExit::Hlt.to_string()], 151, "{who}");
            assert_eq!(vcpu.waits().unwrap_or(0), 0, "KVM waits for none: {who}");
            assert!(handled.waits + handled.halt_successful_poll <= 151, "{who}");
            match policy {
                "off" => assert_eq!(handled.halt_attempted_poll, 0, "{who}"),
                "fixed:always" => assert_eq!(handled.waits, 0, "{who}"),
                _ => {}
            }
        }
    }
}

#[test]
fn the_windows_are_those_that_the_policy_gives_these_halts() {
    let Some(()) = kvm() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("halts.csv");
    for spec in [
        "kvm:max=200us,grow=2,grow_start=10us,shrink=2",
        "kvm:max=500us,grow=3,grow_start=20us,shrink=0",
    ] {
        run(&format!(
            "pingpong --rounds 400 --gap bimodal:0.8:30us:1ms --halt-loop {spec} --halts-out {}",
            file.display()
        ));
        let text = std::fs::read_to_string(&file).unwrap();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|l| l.split(',').collect())
            .collect();
        let column = |index: usize| -> Vec<u64> {
            rows.iter().map(|row| row[index].parse().unwrap()).collect()
        };
        let (windows, halts) = (column(3), column(4));
        assert_eq!(halts.len(), 401);
        let policy = HaltPolicy::here(spec.parse().unwrap());
        assert_eq!(windows_of(&policy, &halts).unwrap(), windows, "{spec}");
        // The verb says the same.
        let lengths = folder.path().join("lengths");
        let lines: Vec<String> = halts.iter().map(u64::to_string).collect();
        std::fs::write(&lengths, lines.join("\n")).unwrap();
        let said = lab(&format!("windows --policy {spec} {}", lengths.display()));
        let said = String::from_utf8(said.stdout).unwrap();
        let said: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(said, windows, "{spec}");
    }
}

#[test]
fn the_help_of_windows_gives_examples() {
    let help = String::from_utf8(lab("windows --help").stdout).unwrap();
    assert_eq!(help, include_str!("../golden/windows-help.txt"));
}
