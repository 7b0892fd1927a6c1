//! What is kept, what is chosen, and how close to the best it comes.

use super::{LONGEST_NS, Learned, Terms, kept};
use crate::policy::test::model::{build, gaps, ratio, refusal, seen, setting, walk};
use crate::policy::{Ask, Policy as _, Setting, Start};

const BREAK_EVEN_NS: u64 = 30_000;

/// A learner that judges after each gap and all but forgets nothing.
fn learned(gaps: &[u64]) -> u64 {
    let terms = Terms {
        half_life: 8,
        clamp: 2,
    };
    let mut learner = Learned::new(terms, &setting(BREAK_EVEN_NS));
    learner.kept = 1 << 16;
    for gap_ns in gaps {
        learner.learn(&seen(*gap_ns, 0, 0));
    }
    learner.threshold_ns
}

#[test]
fn the_cheapest_threshold() {
    // 8 us lies in the bucket that ends at 8,191 ns; 20 us in that to 20,479; 40 us in that to 40,959.
    for (gaps, expected) in [
        (&[][..], 0),
        (&[0], 479),
        (&[8_000], 8_191),
        (&[29_000], 30_719),
        (&[40_000], 0),
        (&[60_000], 0),
        (&[60_001], 0),
        (&[u64::MAX], 0),
        // Twice 7.9 us and once 38.2 us, against three times 30 us.
        (&[8_000, 8_000, u64::MAX], 8_191),
        // 7.9 + 2 x 38.2 us against 90 us; then 7.9 + 3 x 38.2 us against 120 us.
        (&[8_000, u64::MAX, u64::MAX], 8_191),
        (&[8_000, u64::MAX, u64::MAX, u64::MAX], 0),
        // Once 20 us are polled, 40 us are near: better than to block there.
        (&[20_000, 20_000, 20_000, 40_000], 40_959),
        (&[20_000, 20_000, 20_000, 60_001], 20_479),
    ] {
        assert_eq!(learned(gaps), expected, "{gaps:?}");
    }
    // The way to the top of the range pays by steps of 25 us; what lies beyond it is out of reach.
    let steps = [vec![10_000; 10], vec![35_000; 8]].concat();
    assert_eq!(learned(&[&steps[..], &[60_000]].concat()), 60_000);
    assert_eq!(learned(&[&steps[..], &[60_001]].concat()), 36_863);
}

#[test]
fn it_is_judged_soon_and_then_eight_times_in_a_half_life() {
    let mut policy = build("learned:half_life=64", &setting(BREAK_EVEN_NS));
    // Gaps that grow from halt to halt show which of them have been judged.
    let grown: Vec<u64> = (0..40).map(|halt| 1_000 + 600 * halt).collect();
    let windows = walk(policy.as_mut(), &grown);
    let changed: Vec<_> = (1..windows.len())
        .filter(|halt| windows[*halt] != windows[halt - 1])
        .collect();
    assert_eq!(changed, [1, 2, 4, 8, 16, 24, 32, 40]);
}

#[test]
fn weights_halve_in_a_half_life() {
    for half_life in [1, 2, 7, 8, 9, 64, 1 << 16] {
        let interval = (half_life / 8).max(1);
        let intervals = f64::from(half_life) / f64::from(interval);
        let left = (kept(interval, half_life) as f64 / 65_536.0).powf(intervals);
        assert!((left - 0.5).abs() < 1e-4, "{half_life}: {left}");
    }
}

#[test]
fn where_it_starts_and_where_it_ends() {
    let first = |text: &str, start, break_even_ns| {
        let setting = Setting {
            start,
            ..setting(break_even_ns)
        };
        build(text, &setting).window(&Ask::default())
    };
    for (text, break_even_ns, ceiling) in [
        ("learned", BREAK_EVEN_NS, 60_000),
        ("learned:clamp=5", BREAK_EVEN_NS, 150_000),
        ("learned:clamp=0", BREAK_EVEN_NS, 0),
        ("learned", 0, 0),
        ("learned", u64::MAX, LONGEST_NS),
    ] {
        assert_eq!(first(text, Start::Zero, break_even_ns), 0);
        assert_eq!(first(text, Start::Ceiling, break_even_ns), ceiling);
    }
}

/// The lock-out of KVM's rule: a gap of 20 us and a wake-up latency of 40 us below a ceiling of 50 us.
#[test]
fn the_wake_up_latency_does_not_lock_it_out() {
    let last = |text: &str| {
        let mut policy = build(text, &setting(BREAK_EVEN_NS));
        let halt = |_| {
            let window_ns = policy.window(&Ask::default());
            policy.learn(&seen(20_000, window_ns, 40_000));
            window_ns
        };
        (0..100).map(halt).last()
    };
    assert_eq!(last("kvm:max=50us"), Some(0));
    assert_eq!(last("learned"), Some(20_479));
}

#[test]
fn terms_that_make_no_sense_are_refused() {
    for (args, message) in [
        (
            "half_life=0",
            "`half_life=0` is not a number of halts from 1 to 65536",
        ),
        (
            "half_life=65537",
            "is not a number of halts from 1 to 65536",
        ),
        ("clamp=-1", "`clamp=-1` is not a whole number"),
        ("50us", "takes no `50us`"),
    ] {
        let error = refusal(&format!("learned:{args}"));
        assert!(error.contains(message), "{args}: {error}");
    }
}

/// The cost of the best fixed threshold of a load, relative to the oracle, of those up to twice the
/// break-even in steps of 1/32.
fn best_fixed(break_even_ns: u64, gaps: &[u64]) -> f64 {
    let thresholds = (0..=64).map(|step| break_even_ns * step / 32);
    thresholds
        .map(|threshold| ratio(&format!("fixed:{threshold}ns"), break_even_ns, gaps))
        .fold(f64::INFINITY, f64::min)
}

/// On a load whose gaps do not depend on those before, what is learned comes to within 2 % of the best
/// fixed threshold known in retrospect.
#[test]
fn on_stationary_loads_it_comes_near_the_best_fixed_threshold() {
    for process in [
        "fixed:8us",
        "fixed:150us",
        "uniform:5us:100us",
        "exp:20us",
        "exp:40us",
        "exp:60us",
        "exp:400us",
        "bimodal:0.8:15us:2ms",
        "bimodal:0.2:15us:2ms",
    ] {
        let gaps = gaps(process, 10_000);
        for break_even_ns in [10_000, 50_000, 150_000] {
            let best = best_fixed(break_even_ns, &gaps);
            let learned = ratio("learned", break_even_ns, &gaps);
            assert!(
                learned < best * 1.02,
                "{process} {break_even_ns}: {learned} against {best}"
            );
        }
    }
}
