//! Halts handled by the VMM: every HLT comes out, and the windows are the policy's own.

use haltwise_core::policy::Seen;
use haltwise_lab::exit::UserspaceExit;
use haltwise_lab::halt_loop::HaltPolicy;

use crate::lab::{kvm, run};

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
        assert_eq!(text.lines().count(), 1 + 401);
        let mut policy = HaltPolicy::here(spec.parse().unwrap()).build().unwrap();
        for row in text.lines().skip(1) {
            let cells: Vec<&str> = row.split(',').collect();
            let number = |column: usize| cells[column].parse::<u64>().unwrap();
            let seen = Seen {
                halt_ns: number(4),
                poll_ns: number(5),
                wake_latency_ns: number(6),
                waited: cells[7] == "true",
                valid: true,
            };
            let window_ns = policy.window(None);
            assert_eq!(number(3), window_ns, "{spec}: {row}");
            assert!(seen.poll_ns <= seen.halt_ns, "{row}");
            assert!(seen.wake_latency_ns <= seen.halt_ns, "{row}");
            assert!(
                !seen.waited || seen.poll_ns >= window_ns,
                "it polls all of its window before it sleeps: {row}"
            );
            assert!(window_ns > 0 || seen.poll_ns == 0, "{row}");
            policy.learn(&seen);
        }
    }
}
