//! How much can be gained on the setting in force, and where twice as cheap can hold: the laws of docs/tuning.md, held
//! against replays of the same gaps.

use proptest::prelude::*;

use super::super::figures::LEADER;
use super::*;
use crate::replay::session::Plan;
use crate::replay::test::{replay, slept};

/// Wake-ups that all take as long, so that every sleep costs [`BREAK_EVEN`].
const LATENCY: u64 = 20_000;
const BREAK_EVEN: u64 = 30_000;
const CEILING: u64 = 200_000;

/// Mean cost of a halt, in nanoseconds of CPU, where a window up to [`CEILING`] stays open, by the
/// law.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Gain {
    in_force: f64,
    off: f64,
    least: f64,
}

/// Cost per halt of each policy on these gaps, with a window that begins open.
fn costs(gaps_ns: &[u64], specs: &[&str]) -> Vec<f64> {
    let halts = slept(gaps_ns.iter().copied(), LATENCY, WakeSource::Device);
    let plan = Plan {
        specs: specs.iter().map(|text| text.parse().unwrap()).collect(),
        cost: COST,
        arrivals: Arrivals::FixedGap,
        elsewhere: None,
    };
    let played = replay(plan, &halts).played;
    let cost = |outcome: &crate::replay::Outcome| outcome.cost_ns(&COST) / halts.len() as f64;
    (played.iter())
        .map(|played| cost(&played.from_ceiling))
        .collect()
}

fn gain(gaps_ns: &[u64]) -> Gain {
    let in_force = |gap_ns| match gap_ns {
        0..=CEILING => gap_ns,
        _ => CEILING + BREAK_EVEN,
    };
    let mean = |cost: &dyn Fn(u64) -> u64| {
        let costs = gaps_ns.iter().map(|&gap_ns| cost(gap_ns));
        costs.sum::<u64>() as f64 / gaps_ns.len() as f64
    };
    Gain {
        in_force: mean(&in_force),
        off: BREAK_EVEN as f64,
        least: mean(&|gap_ns| gap_ns.min(BREAK_EVEN)),
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.max(b)
}

proptest! {
    /// Gaps between break-even and ceiling: what is in force costs the mean gap, not polling the
    /// break-even, and that is the least.
    #[test]
    fn between_break_even_and_ceiling_off_is_the_clairvoyant(
        gaps_ns in prop::collection::vec(BREAK_EVEN..=CEILING, 1..200)
    ) {
        let law = gain(&gaps_ns);
        let costs = costs(&gaps_ns, &["kvm:max=200us", "off", "clairvoyant"]);
        prop_assert!(near(costs[0], law.in_force), "{costs:?} {law:?}");
        prop_assert!(near(costs[1], BREAK_EVEN as f64) && near(law.off, costs[1]));
        prop_assert!(near(costs[2], costs[1]) && near(law.least, costs[2]));
        let mean = gaps_ns.iter().sum::<u64>() as f64 / gaps_ns.len() as f64;
        prop_assert_eq!(2.0 * law.off <= law.in_force, mean >= 2.0 * BREAK_EVEN as f64);
    }

    /// Any gaps under a window that stays open: the figures of the law are those of replays, and no
    /// policy there is costs less than the least.
    #[test]
    fn the_law_is_a_replay_and_nothing_is_below_its_bound(
        gaps_ns in prop::collection::vec(1_u64..2_000_000, 1..100)
    ) {
        let law = gain(&gaps_ns);
        let fixed = costs(&gaps_ns, &["fixed:200us", "off", "clairvoyant"]);
        prop_assert!(near(fixed[0], law.in_force), "{fixed:?} {law:?}");
        prop_assert!(near(fixed[1], law.off) && near(fixed[2], law.least));
        let leader = costs(&gaps_ns, &[LEADER])[0];
        prop_assert!(leader >= law.least * (1.0 - 1e-9), "{leader} {law:?}");
        let asleep = gaps_ns.iter().filter(|&&gap| gap > CEILING).count() as f64;
        let asleep = asleep / gaps_ns.len() as f64;
        let polled = law.in_force - asleep * BREAK_EVEN as f64;
        // Cost of not polling: c / (p + b c).
        let share = BREAK_EVEN as f64 / (polled + asleep * BREAK_EVEN as f64);
        prop_assert!(near(share, law.off / law.in_force));
    }
}
