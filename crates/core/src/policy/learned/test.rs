//! Weights that are kept, thresholds that are chosen, and how close to the best the policy comes.

use super::{LONGEST_NS, kept};
use crate::policy::test::model::{build, gaps, ratio, setting, walk};
use crate::policy::{Ask, Setting, Start};

const BREAK_EVEN_NS: u64 = 30_000;

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
