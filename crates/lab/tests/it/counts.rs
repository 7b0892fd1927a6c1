//! Each guest does exactly what was asked, and KVM's own count of HLT exits agrees.

use haltwise_lab::guest::exits::PER_ROUND;
use haltwise_lab::outcome::EndedBy;

use crate::lab::{kvm, run};

/// Runs a guest; every vCPU must have halted and been interrupted so often.
fn expect(args: &str, halts: u64) {
    let outcome = run(args);
    assert_eq!(outcome.ended_by, EndedBy::Rounds, "{args}");
    for vcpu in outcome.vcpus() {
        assert_eq!((vcpu.halts, vcpu.interrupts), (halts, halts), "{args}");
        let exits = vcpu.stat("halt_exits").unwrap_or(halts);
        assert_eq!(exits, halts, "{args}: halt_exits");
    }
}

#[test]
fn every_guest_halts_exactly_as_often_as_it_says() {
    let Some(()) = kvm() else { return };
    // The last HLT of pingpong is ended by the stop line.
    expect("pingpong --rounds 307 --gap uniform:50us:300us", 308);
    expect("pingpong-stamped --rounds 307 --gap fixed:100us", 308);
    expect("tick --rounds 211 --gap bimodal:0.8:100us:2ms", 211);
    expect("tick --rounds 97 --vcpus 3", 97);
    expect("tick-pit --rounds 23 --gap fixed:1ms", 23);
    expect("tick-pit --ioapic --rounds 23 --gap fixed:1ms", 23);
    expect("ipi --rounds 307", 307);
    expect("ipi --rounds 101 --vcpus 3", 101);
    expect("idle --rounds 7 --gap fixed:2ms", 7);
    expect("exits --rounds 2", 2 * 137);
}

#[test]
fn gaps_in_turn_are_each_in_force_for_a_while() {
    let Some(()) = kvm() else { return };
    let outcome =
        run("tick --gaps fixed:20ms,fixed:1ms --gaps-every 200ms --duration 1200ms --vcpus 2");
    for vcpu in outcome.vcpus() {
        // The one alone makes 60, the other 1,200.
        assert!((61..1_200).contains(&vcpu.halts), "{}", vcpu.halts);
    }
}

#[test]
fn exits_come_in_the_promised_primes() {
    let Some(()) = kvm() else { return };
    let outcome = run("exits --rounds 3 --vcpus 2 --gap fixed:50us");
    for vcpu in outcome.vcpus() {
        assert_eq!(vcpu.exits.len(), PER_ROUND.len(), "{:?}", vcpu.exits);
        for (kind, per_round) in PER_ROUND {
            let found = vcpu.exits.iter().find(|(name, _)| name.starts_with(kind));
            let (name, count) = found.expect(kind);
            assert_eq!(*count, u64::from(per_round) * 3, "{name}");
        }
    }
    assert!(PER_ROUND.iter().all(|(_, n)| (2..*n).all(|d| n % d != 0)));
}

#[test]
fn several_vms_at_once_keep_their_own_counts() {
    let Some(()) = kvm() else { return };
    let outcome = run("pingpong --vms 3 --vcpus 2 --rounds 53 --gap exp:300us --name web");
    let names: Vec<&str> = outcome.vms.iter().map(|vm| vm.name.as_str()).collect();
    assert_eq!(names, ["web-0", "web-1", "web-2"]);
    assert_eq!(outcome.vcpus().count(), 6);
    for vcpu in outcome.vcpus() {
        assert_eq!((vcpu.halts, vcpu.rounds), (54, Some(53)));
        assert_eq!(vcpu.stat("halt_exits").unwrap_or(54), 54);
    }
    let mut tids: Vec<u32> = outcome.vcpus().map(|vcpu| vcpu.tid).collect();
    tids.sort_unstable();
    tids.dedup();
    assert_eq!(tids.len(), 6, "a thread for each vCPU");
}

#[test]
fn a_run_can_be_repeated_from_what_it_prints() {
    let Some(()) = kvm() else { return };
    let first = run("tick --rounds 40 --gap uniform:0.1ms:1ms --seed 3");
    assert_eq!((first.gap.as_str(), first.seed), ("uniform:100us:1ms", 3));
    let again = run(&format!(
        "{} --rounds 40 --gap {} --seed {}",
        first.guest, first.gap, first.seed
    ));
    assert_eq!((again.gap, again.seed), (first.gap, first.seed));
}

#[test]
fn guests_that_time_their_timers_count_every_one() {
    let Some(()) = kvm() else { return };
    for guest in ["timed-deadline", "timed-exitless", "timed-nonsense"] {
        let outcome = run(&format!("{guest} --vcpus 2 --rounds 60 --gap fixed:300us"));
        for vcpu in outcome.vcpus() {
            assert_eq!((vcpu.halts, vcpu.interrupts), (60, 60), "{guest}");
        }
    }
    let pit = run("timed-pit --rounds 23 --gap fixed:1ms");
    for vcpu in pit.vcpus() {
        assert_eq!((vcpu.halts, vcpu.interrupts), (23, 23));
    }
}
