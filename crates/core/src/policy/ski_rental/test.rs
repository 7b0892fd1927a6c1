//! What is drawn, and what the two rules promise.

use super::drawn;
use crate::policy::test::model::{build, cost_ns, refusal, setting, walk};
use crate::policy::{Ask, Setting};

const BREAK_EVEN_NS: u64 = 30_000;

#[test]
fn draws_by_their_share() {
    // At share 1/2, 30 us x ln((1 + e) / 2).
    for (unit, expected) in [(0.0, 0), (0.5, 18_603), (1.0 - f64::EPSILON, 30_000)] {
        assert_eq!(drawn(unit, BREAK_EVEN_NS), expected, "{unit}");
    }
    assert_eq!(drawn(0.9, 0), 0);
    assert_eq!(drawn(1.0, u64::MAX), u64::MAX);
}

#[test]
fn without_a_draw_it_is_the_break_even() {
    for break_even_ns in [0, 1, BREAK_EVEN_NS, u64::MAX] {
        let mut policy = build("ski-rental", &setting(break_even_ns));
        assert_eq!(policy.window(&Ask::default()), break_even_ns);
    }
    let error = refusal("ski-rental:draw=once");
    assert!(error.contains("`draw=once` is not `random`"), "{error}");
}

#[test]
fn a_seed_draws_the_same_for_ever() {
    let windows = |seed| {
        let setting = Setting {
            seed,
            ..setting(BREAK_EVEN_NS)
        };
        walk(
            build("ski-rental:draw=random", &setting).as_mut(),
            &[1_000; 50],
        )
    };
    assert_eq!(windows(1), windows(1));
    assert_ne!(windows(1), windows(2));
}

/// The expected cost of the randomised rule is the same share above the oracle's for every gap up
/// to the break-even, and less beyond by nothing: no load can aim at it.
#[test]
fn the_randomised_rule_costs_e_over_e_minus_1_in_expectation() {
    const DRAWS: u32 = 200_000;
    let promised = std::f64::consts::E / (std::f64::consts::E - 1.0);
    // What one draw costs lies within 0 and 2 B, so the mean of 200,000 is known to 2 B / (2 sqrt(N)),
    // 67 ns, in one standard deviation at most. Five of them:
    let margin_ns = 5.0 * BREAK_EVEN_NS as f64 / f64::from(DRAWS).sqrt();
    for gap_ns in [100, 1_000, 10_000, 20_000, 29_999, 30_000, 30_001, 1 << 40] {
        let setting = Setting {
            seed: gap_ns,
            ..setting(BREAK_EVEN_NS)
        };
        let mut policy = build("ski-rental:draw=random", &setting);
        let costs = (0..DRAWS).map(|_| {
            let window_ns = policy.window(&Ask::default());
            cost_ns(gap_ns, window_ns, BREAK_EVEN_NS)
        });
        let mean = costs.sum::<u64>() as f64 / f64::from(DRAWS);
        let best = gap_ns.min(BREAK_EVEN_NS) as f64;
        let off = (mean - promised * best).abs();
        assert!(off < margin_ns, "{gap_ns}: {mean} against {best}");
    }
}
