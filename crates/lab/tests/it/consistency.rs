//! Reports of the guest, KVM's statistics and the scheduler on the same halts must fit together.

use haltwise_core::hist::KvmHist;
use haltwise_lab::outcome::VcpuOutcome;

use crate::lab::{kvm, run};

fn count(vcpu: &VcpuOutcome, hist: &str) -> Option<u64> {
    vcpu.hist.get(hist).map(KvmHist::count)
}

/// Checks the laws of KVM's counters, which hold whatever the host does.
fn fits(vcpu: &VcpuOutcome, what: &str) {
    let (Some(polls), Some(attempts)) = (
        vcpu.stat("halt_successful_poll"),
        vcpu.stat("halt_attempted_poll"),
    ) else {
        return;
    };
    assert!(polls <= attempts, "{what}: {polls} of {attempts} polls");
    if let (Some(ok), Some(failed), Some(waits)) = (
        count(vcpu, "halt_poll_success_hist"),
        count(vcpu, "halt_poll_fail_hist"),
        vcpu.waits(),
    ) {
        assert_eq!((ok, failed), (polls, attempts - polls), "{what}");
        assert!(failed <= waits, "{what}: a failed poll ends in a wait");
        // A HLT whose interrupt is pending is neither.
        assert!(waits + polls <= vcpu.halts, "{what}: {waits} + {polls}");
    }
}

#[test]
fn polls_and_waits_account_for_the_halts() {
    let Some(()) = kvm() else { return };
    for args in [
        "pingpong --rounds 500 --gap fixed:50us --cap 400us",
        "pingpong --rounds 500 --gap exp:60us",
        "pingpong --rounds 200 --gap phases:60us*20:2ms*5 --cap 100us",
        "tick --rounds 300 --gap fixed:200us --cap 1ms",
        "ipi --rounds 500 --cap 1ms",
        "idle --rounds 5 --gap fixed:1ms --vms 2",
    ] {
        for vcpu in run(args).vcpus() {
            fits(vcpu, args);
        }
    }
}

#[test]
fn with_a_cap_of_zero_nothing_is_polled() {
    let Some(()) = kvm() else { return };
    for cap in ["0", "off"] {
        let outcome = run(&format!(
            "pingpong --rounds 300 --gap fixed:200us --cap {cap}"
        ));
        assert_eq!(outcome.vms[0].vm_max_halt_poll_ns, Some(0));
        for vcpu in outcome.vcpus() {
            fits(vcpu, cap);
            assert_eq!(vcpu.stat("halt_attempted_poll").unwrap_or(0), 0);
            assert_eq!(vcpu.stat("halt_poll_success_ns").unwrap_or(0), 0);
        }
    }
}

#[test]
fn the_scheduler_bears_witness_to_the_waits() {
    let Some(()) = kvm() else { return };
    let outcome = run("pingpong --rounds 400 --gap fixed:300us --cap 0");
    for vcpu in outcome.vcpus() {
        let (Some(switches), Some(waits)) = (vcpu.voluntary_switches, vcpu.waits()) else {
            continue;
        };
        // A wake-up between KVM's decision and the scheduler's leaves no voluntary switch; KVM's
        // clock update, 100 ms after the first run, may add one; a contended lock may, too.
        assert!(
            switches.abs_diff(waits) <= 20,
            "{switches} voluntary switches, {waits} waits"
        );
        assert!(vcpu.cpu_ns > 0);
    }
}
