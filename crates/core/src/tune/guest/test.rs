//! Laws of the search for a guest, and where its answer is known.

use proptest::prelude::*;

use super::*;
use crate::event::{Halt, WakeSource};
use crate::kvm::{Arch, Knobs, Version};
use crate::policy::Spec;
use crate::replay::Arrivals;
use crate::replay::calibration::drifts_percent;
use crate::replay::session::Survey;
use crate::tune::advice;
use crate::tune::advice::{Verdict, advise};
use crate::tune::figures::{Subject, figures};
use crate::tune::test::load;
use crate::tune::{Alone, Gather, Goal, Keep};

const VERSION: &str = "6.12";

fn governor(in_force: Params) -> Governor {
    let version: Version = VERSION.parse().unwrap();
    let rule = Rule::of(version).unwrap();
    Governor { rule, in_force }
}

const OFF: Params = Params {
    guest_halt_poll_ns: 0,
    grow: 2,
    grow_start: 50_000,
    shrink: 2,
    allow_shrink: true,
};

/// Idle periods of one CPU that never polled: sleeps wake about 20 us after an IPI.
fn material(spec: &str, count: usize) -> Material {
    let (mut survey, mut gather) = (Survey::default(), Gather::new(Keep::ALL));
    for halt in load(0, spec, count, 1) {
        let wake = WakeSource::Ipi;
        let halt = Halt { wake, ..halt };
        survey.halt(&halt);
        gather.halt(&halt);
    }
    let version: Version = VERSION.parse().unwrap();
    let terms = Terms {
        version,
        arch: Arch::X86,
        in_force: Knobs::defaults(version, Arch::X86),
        arrivals: Arrivals::FixedGap,
        elsewhere: None,
        seed: 1,
        ceiling_only: false,
        weights_milli: std::collections::BTreeMap::new(),
    };
    gather.finish(terms, survey).unwrap()
}

fn goal(cost: Cost) -> Goal {
    Goal {
        name: "balanced".to_owned(),
        aim: Aim {
            cost,
            switch_cpu_ends_ns: None,
            max_poll_cpu_percent: None,
            drifts_percent: drifts_percent(false),
            possible_poll_cpu_percent: None,
        },
    }
}

const COST: Cost = Cost {
    switch_cpu_ns: 10_000,
    latency_weight_milli: 1_000,
    exit_cpu_ns: 2_000,
    ipi_cpu_ns: 2_000,
};

fn tuned(
    material: &Material,
    in_force: Params,
    cost: Cost,
) -> (Final<Params>, advice::Advice<Params>) {
    let (governor, goal) = (governor(in_force), goal(cost));
    let found = search(material, &governor, &[goal.aim], &Alone);
    let of = play_final(material, &governor, &found, &[goal.aim], &Alone);
    let advice = advise(material, &of, &goal);
    (of, advice)
}

#[test]
fn short_gaps_are_polled_and_long_ones_are_not() {
    let (_, short) = tuned(&material("fixed:15us", 4_000), OFF, COST);
    assert_eq!(short.verdict, Verdict::Change);
    assert!(short.choice.unwrap().knobs.guest_halt_poll_ns >= 15_000);
    let (_, long) = tuned(&material("fixed:5ms", 4_000), Params::default(), COST);
    assert!(!long.verdict.changes() || long.choice.unwrap().knobs.guest_halt_poll_ns == 0);
    let (_, long) = tuned(&material("fixed:5ms", 4_000), OFF, COST);
    assert!(!long.verdict.changes(), "{:?}", long.verdict);
}

#[test]
fn what_exits_cost_decides_where_sleep_and_poll_cost_the_same() {
    // A sleep of 10 us of CPU against a poll of 20 us: worth it from two exits of more than 5 us each.
    let material = material("fixed:20us", 4_000);
    let of = |each_ns| Cost {
        latency_weight_milli: 0,
        exit_cpu_ns: each_ns,
        ipi_cpu_ns: each_ns,
        ..COST
    };
    let (_, cheap) = tuned(&material, OFF, of(4_000));
    assert!(!cheap.verdict.changes());
    let (_, dear) = tuned(&material, OFF, of(8_000));
    assert_eq!(dear.verdict, Verdict::Change);
}

#[test]
fn parameters_that_make_no_difference_are_the_same_setting() {
    let terms = &material("fixed:20us", 10).terms;
    let stays = Params {
        allow_shrink: false,
        ..Params::default()
    };
    assert!(stays.is_same(&Params { shrink: 7, ..stays }, terms));
    assert!(OFF.is_same(&Params { grow: 9, ..OFF }, terms));
    // A limit that has grown stays where it may not shrink, whatever the ceiling is now.
    let held = Params {
        allow_shrink: false,
        ..OFF
    };
    assert!(!held.is_same(&OFF, terms));
    assert_eq!(Params::default().changes(&OFF, terms), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// What a search has of a setting is what the policy by its name has, to the unit.
    #[test]
    fn a_setting_is_played_as_its_policy_is(
        max in 0_u32..400_000, grow in 0_u32..5, grow_start in 0_u32..200_000, shrink in 0_u32..5,
        allow_shrink in any::<bool>(),
    ) {
        let material = material("exp:60us", 600);
        let params = Params { guest_halt_poll_ns: max, grow, grow_start, shrink, allow_shrink };
        let entry = Entry { rule: governor(params).rule, params, limits: Limits::Zero };
        let spec: Spec = format!(
            "guest-haltpoll:max={max}ns,grow={grow},grow_start={grow_start}ns,shrink={shrink},\
             allow_shrink={},kernel={VERSION}",
            if allow_shrink { "Y" } else { "N" }
        ).parse().unwrap();
        let parts = play(&material, &[entry], true, "judge", &Alone);
        let subjects = [Subject::Guest(entry), Subject::Policy(spec)];
        let played = figures(&material, &subjects, &COST, &Alone).unwrap();
        prop_assert_eq!(&played[0], &played[1]);
        prop_assert_eq!(Sums::total(&parts[0][1..]), played[0].sums);
    }
}
