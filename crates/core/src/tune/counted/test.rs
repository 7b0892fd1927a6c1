//! Bounds hold for every order and place that the buckets allow.

use super::*;
use crate::kvm::{Arch, Rule, Version};
use crate::replay::latency::Latencies;
use crate::tune::test::{AIM, COST};

const LATENCY_NS: u64 = 20_000;

/// Counts of gaps that were recorded without polling.
fn counts(gaps_ns: &[u64]) -> HaltCounts {
    let mut row = HaltCounts {
        halts: gaps_ns.len() as u64,
        waited: gaps_ns.len() as u64,
        polled: Some(0),
        ..HaltCounts::default()
    };
    for &gap_ns in gaps_ns {
        row.gap_ns.record(gap_ns);
        row.halt_ns.record(gap_ns + LATENCY_NS);
        row.wake_latency_ns.record(LATENCY_NS);
    }
    row
}

fn counted(gaps_ns: &[u64]) -> Counted {
    Counted::of_counts(&[counts(gaps_ns)], 1, 1_000_000_000)
}

fn exact_milli(gaps_ns: &[u64], threshold_ns: u64) -> u128 {
    let one = |&gap_ns: &u64| {
        if gap_ns <= threshold_ns && threshold_ns > 0 {
            COST.milli(gap_ns, 0, 0)
        } else {
            COST.milli(threshold_ns, 1, LATENCY_NS)
        }
    };
    gaps_ns.iter().map(one).sum()
}

fn reach() -> Reach {
    Reach::of(Rule::of(Version::new(6, 12), Arch::X86))
}

fn defaults() -> Knobs {
    Knobs::defaults(Version::new(6, 12), Arch::X86)
}

proptest::proptest! {
    /// The real cost of a threshold lies between the threshold's bounds.
    #[test]
    fn bounds_hold_the_truth(
        gaps_ns in proptest::collection::vec(0_u64..3_000_000, 1..200),
        threshold_ns in 0_u64..2_500_000,
    ) {
        let bounds = counted(&gaps_ns).bounds(threshold_ns, &COST).unwrap();
        let exact = exact_milli(&gaps_ns, threshold_ns);
        proptest::prop_assert!(bounds.low.milli <= exact, "{bounds:?} {exact}");
        proptest::prop_assert!(exact <= bounds.high.milli, "{bounds:?} {exact}");
    }

    /// The recommended threshold is, at its worst, no dearer than not polling at all.
    #[test]
    fn the_best_is_never_worse_than_off(
        gaps_ns in proptest::collection::vec(0_u64..3_000_000, 1..200),
    ) {
        let counted = counted(&gaps_ns);
        let (_, best) = counted.best(&COST, None).unwrap();
        let off = counted.bounds(0, &COST).unwrap();
        proptest::prop_assert!(best.high.milli <= off.high.milli);
    }
}

#[test]
fn a_threshold_that_no_recorded_halt_falls_below_is_not_offered() {
    let counted = counted(&[15_000; 100]);
    assert_eq!(counted.shortest_ns, Some(32_768));
    // The only bucket with gaps ends below 32 us.
    assert_eq!(counted.best(&COST, None).unwrap().0, 0);
}

#[test]
fn a_recording_that_polled_tells_what_it_cost() {
    let mut row = counts(&[500_000; 10]);
    row.polled = Some(10);
    for _ in 0..10 {
        row.poll_fail_ns.record(200_000);
    }
    let counted = Counted::of_counts(&[row], 1, 10_000_000);
    let in_force = counted.in_force(&COST);
    let expected = COST.milli(2_000_000, 10, 200_000);
    assert_eq!(in_force.known_milli, Some(expected));
    let advice = advise(&counted, &[], reach(), &defaults(), &AIM).unwrap();
    assert_eq!((advice.threshold_ns, advice.changes), (0, true));
    assert_eq!(advice.knobs.halt_poll_ns, 0);
    assert_eq!(advice.bounds.low, advice.bounds.high);
}

#[test]
fn where_polling_is_unknown_only_a_certain_gain_counts() {
    let mut row = counts(&[500_000; 10]);
    row.polled = None;
    let counted = Counted::of_counts(&[row], 1, 10_000_000);
    assert_eq!(counted.in_force(&COST).known_milli, None);
    let advice = advise(&counted, &[], reach(), &defaults(), &AIM).unwrap();
    assert!(!advice.changes, "off is no better than blocks alone");
}

/// Gaps of 27 us under a window that is shut: to sleep costs 30 us as calibrated, and 25 us at one end.
#[test]
fn a_threshold_that_gains_only_within_the_calibrations_error_is_unproven() {
    let mut gaps_ns = vec![2_000; 5];
    gaps_ns.extend([22_000; 1_000]);
    let counted = Counted::of_counts(&[counts(&gaps_ns)], 1, 1_000_000_000);
    for (ends, hangs) in [
        (None, false),
        (Some([9_900, 10_100]), false),
        (Some([5_000, 15_000]), true),
    ] {
        let mut aim = AIM;
        aim.switch_cpu_ends_ns = ends;
        let advice = advise(&counted, &[], reach(), &defaults(), &aim).unwrap();
        assert!(advice.threshold_ns > 22_000, "{advice:?}");
        let said = (advice.changes, advice.hangs_on_calibration);
        assert_eq!(said, (!hangs, hangs), "{ends:?}");
    }
}

/// Counts that `--mode stats` gives for some gaps under a fixed window: successful polls, and waits after polls
/// without success, all wake-ups as late as each other.
fn as_kvm_counts(gaps_ns: &[u64], window_ns: u64) -> HaltCounts {
    let (mut success, mut wait) = (KvmHist::default(), KvmHist::default());
    let (mut success_ns, mut fail_ns, mut wait_ns) = (0, 0, 0);
    for &gap_ns in gaps_ns {
        if gap_ns <= window_ns {
            success.0[KvmHist::bucket_of(gap_ns)] += 1;
            success_ns += gap_ns;
        } else {
            let waited_ns = gap_ns - window_ns + LATENCY_NS;
            wait.0[KvmHist::bucket_of(waited_ns)] += 1;
            (fail_ns, wait_ns) = (fail_ns + window_ns, wait_ns + waited_ns);
        }
    }
    let success = success.spread(success_ns);
    let mut halt_ns = wait.spread(wait_ns + fail_ns);
    halt_ns.merge(&success);
    let mut poll_fail_ns = LogHist::default();
    poll_fail_ns.add_buckets([], fail_ns);
    HaltCounts {
        halts: halt_ns.count(),
        halt_ns,
        poll_success_ns: success,
        poll_fail_ns,
        ..HaltCounts::default()
    }
}

fn always_as_late() -> Table {
    let mut latencies = Latencies::default();
    latencies.add(0, LATENCY_NS);
    Table::of_price(&latencies).unwrap()
}

proptest::proptest! {
    /// The cost of any threshold lies between the bounds that KVM's own histograms give, whatever window
    /// was in force when they were counted.
    #[test]
    fn kvms_own_histograms_bound_the_same_gaps(
        gaps_ns in proptest::collection::vec(1_u64..3_000_000, 1..200),
        window_ns in proptest::sample::select(vec![0, 10_000, 200_000]),
        threshold_ns in 0_u64..1_000_000,
    ) {
        let row = as_kvm_counts(&gaps_ns, window_ns);
        let counted = Counted::of_kvm(&[row], 1, 10_000_000, window_ns, &always_as_late());
        proptest::prop_assert_eq!(counted.halts, gaps_ns.len() as u64);
        let bounds = counted.bounds(threshold_ns, &COST).unwrap();
        let exact = exact_milli(&gaps_ns, threshold_ns);
        proptest::prop_assert!(bounds.low.milli <= exact, "{:?} {}", bounds, exact);
        proptest::prop_assert!(exact <= bounds.high.milli, "{:?} {}", bounds, exact);
    }
}
