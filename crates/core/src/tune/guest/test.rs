//! Laws of the search for a guest, and where its answer is known.

use proptest::prelude::*;

use super::*;
use crate::event::{Halt, WakeSource};
use crate::policy::Spec;
use crate::tune::advice::{Verdict, advise};
use crate::tune::figures::{Subject, figures};
use crate::tune::test::{AIM, load, taken, terms};
use crate::tune::{Advice, Gather, Goal, Keep, Serial};

const VERSION: &str = "6.12";

const OFF: Params = Params {
    guest_halt_poll_ns: 0,
    grow: 2,
    grow_start: 50_000,
    shrink: 2,
    allow_shrink: true,
};

/// Idle periods of one CPU that never polled, under this setting: sleeps wake about 20 us after an IPI.
fn inputs(spec: &str, count: usize, in_force: Params) -> Inputs {
    let wake = WakeSource::Ipi;
    let halts = load(0, spec, count, 1).into_iter();
    let halts: Vec<Halt> = halts.map(|halt| Halt { wake, ..halt }).collect();
    let rule = Rule::of(VERSION.parse().unwrap()).unwrap();
    let mut terms = terms(VERSION);
    terms.governor = Governor { rule, in_force };
    taken(terms, Gather::new(Keep::ALL), &halts)
}

fn goal(cost: Cost) -> Goal {
    Goal {
        name: "balanced".to_owned(),
        aim: Aim { cost, ..AIM },
    }
}

const COST: Cost = Cost {
    switch_cpu_ns: 10_000,
    latency_weight_milli: 1_000,
    exit_cpu_ns: 2_000,
    ipi_cpu_ns: 2_000,
};

fn tuned(inputs: &Inputs, cost: Cost) -> Advice<Params> {
    let goal = goal(cost);
    let found = search::search(inputs, &[goal.aim], &Serial);
    let of = play_final(inputs, &found, &[goal.aim], &Serial);
    advise(inputs, &of, &goal)
}

#[test]
fn short_gaps_are_polled_and_long_ones_are_not() {
    let short = tuned(&inputs("fixed:15us", 4_000, OFF), COST);
    assert_eq!(short.verdict, Verdict::Change);
    assert!(short.choice.unwrap().knobs.guest_halt_poll_ns >= 15_000);
    let long = tuned(&inputs("fixed:5ms", 4_000, Params::default()), COST);
    assert!(!long.verdict.changes() || long.choice.unwrap().knobs.guest_halt_poll_ns == 0);
    let long = tuned(&inputs("fixed:5ms", 4_000, OFF), COST);
    assert!(!long.verdict.changes(), "{:?}", long.verdict);
}

#[test]
fn what_exits_cost_decides_where_sleep_and_poll_cost_the_same() {
    // A sleep of 10 us of CPU against a poll of 20 us: worth it from two exits of more than 5 us each.
    let inputs = inputs("fixed:20us", 4_000, OFF);
    let of = |each_ns| Cost {
        latency_weight_milli: 0,
        exit_cpu_ns: each_ns,
        ipi_cpu_ns: each_ns,
        ..COST
    };
    let cheap = tuned(&inputs, of(4_000));
    assert!(!cheap.verdict.changes());
    let dear = tuned(&inputs, of(8_000));
    assert_eq!(dear.verdict, Verdict::Change);
}

#[test]
fn parameters_that_make_no_difference_are_the_same_setting() {
    let terms = &inputs("fixed:20us", 10, OFF).terms;
    let stays = Params {
        allow_shrink: false,
        ..Params::default()
    };
    assert!(stays.is_same(&Params { shrink: 7, ..stays }, terms));
    assert!(OFF.is_same(&Params { grow: 9, ..OFF }, terms));
    // A limit that has grown stays where it may not shrink, whatever the ceiling is now.
    let mut held = OFF;
    held.allow_shrink = false;
    assert!(!held.is_same(&OFF, terms));
    assert_eq!(Params::default().changes(&OFF, terms), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A search gives the same totals for a setting as a replay of the policy of that name, to the unit.
    #[test]
    fn a_setting_is_played_as_its_policy_is(
        max in 0_u32..400_000, grow in 0_u32..5, grow_start in 0_u32..200_000, shrink in 0_u32..5,
        allow_shrink in any::<bool>(),
    ) {
        let inputs = inputs("exp:60us", 600, Params::default());
        let params = Params { guest_halt_poll_ns: max, grow, grow_start, shrink, allow_shrink };
        let entry = Entry::new(params);
        let spec: Spec = format!(
            "guest-haltpoll:max={max}ns,grow={grow},grow_start={grow_start}ns,shrink={shrink},\
             allow_shrink={},kernel={VERSION}",
            if allow_shrink { "Y" } else { "N" }
        ).parse().unwrap();
        let parts = stage::play(&inputs, &[entry], Part::Whole, "judge", &Serial);
        let subjects = [Subject::Guest(entry), Subject::Policy(spec)];
        let played = figures(&inputs, &subjects, &COST, &Serial).unwrap();
        prop_assert_eq!(&played[0], &played[1]);
        prop_assert_eq!(Sums::total(&parts[0][1..]), played[0].sums);
    }
}
