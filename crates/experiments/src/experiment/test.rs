//! Laws of the framework: of the order, of a direction, of a check, of the registry.

mod registry;
pub(super) mod trials;

use std::collections::BTreeSet;

use haltwise_core::hist::KvmHist;
use haltwise_core::units::Nanos;
use haltwise_lab::outcome::VcpuOutcome;
use proptest::prelude::*;
use serde_json::json;

use super::Expected;
use super::conduct::block_length;
use super::judge::{Change, SameDirection, direction};
use super::registry::{EXPERIMENTS, find};
use super::schedule::{orders, seed_of_round};
use super::witness::{Witness, compare};

proptest! {
    #[test]
    fn every_round_holds_each_variant_once_and_a_seed_draws_the_same_again(seed: u64, variants in 0_usize..40) {
        for (order, again) in orders(seed, variants).zip(orders(seed, variants)).take(5) {
            prop_assert_eq!(&order, &again);
            let distinct: BTreeSet<_> = order.iter().copied().collect();
            prop_assert_eq!(distinct, (0..variants).collect());
            prop_assert_eq!(order.len(), variants);
        }
    }
}

#[test]
fn every_order_of_three_comes_up_about_as_often() {
    let mut counts = std::collections::BTreeMap::new();
    for order in orders(7, 3).take(6_000) {
        *counts.entry(order).or_insert(0_u32) += 1;
    }
    assert_eq!(counts.len(), 6);
    // Standard deviation of such a count: 29.
    assert!(
        counts.values().all(|count| (850..1_150).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn rounds_have_seeds_of_their_own() {
    let seeds: BTreeSet<u64> = (0..1_000).map(|round| seed_of_round(1, round)).collect();
    assert_eq!(seeds.len(), 1_000);
    assert_ne!(seed_of_round(1, 0), seed_of_round(2, 0));
}

#[test]
fn a_direction_needs_an_interval_on_one_side() {
    let of = |differences: &[f64]| {
        let pairs: Vec<_> = differences
            .iter()
            .map(|d| (Some(100.0), Some(100.0 + d)))
            .collect();
        Change::of(&pairs).unwrap()
    };
    let up = of(&[5.0, 6.0, 7.0, 5.5, 6.5, 6.0]);
    let down = of(&[-5.0, -6.0, -7.0, -5.5, -6.5, -6.0]);
    let mixed = of(&[5.0, -6.0, 7.0, -5.5, 6.5, -6.0]);
    let few = of(&[5.0, 6.0, 7.0, 5.5, 6.5]);
    // One that has no ratio.
    let to_zero = of(&[-100.0; 6]);
    assert_eq!(to_zero.ratio, None);
    for (expected, change, same) in [
        (Expected::More, &up, SameDirection::Yes),
        (Expected::Less, &up, SameDirection::No),
        (Expected::More, &mixed, SameDirection::NotShown),
        (Expected::More, &few, SameDirection::NotShown),
        (Expected::Less, &to_zero, SameDirection::Yes),
        (Expected::More, &to_zero, SameDirection::No),
        (Expected::NoMoreThan(0.1), &up, SameDirection::Yes),
        (Expected::NoMoreThan(0.06), &up, SameDirection::NotShown),
        (Expected::NoMoreThan(0.02), &up, SameDirection::No),
        (Expected::NoMoreThan(0.1), &to_zero, SameDirection::Yes),
        (Expected::NoMoreThan(0.1), &few, SameDirection::NotShown),
        (Expected::NoLessThan(0.1), &down, SameDirection::Yes),
        (Expected::NoLessThan(0.06), &down, SameDirection::NotShown),
        (Expected::NoLessThan(0.02), &down, SameDirection::No),
        (Expected::NoLessThan(0.1), &to_zero, SameDirection::No),
    ] {
        assert_eq!(
            direction(expected, 100.0, change),
            same,
            "{expected:?} {change:?}"
        );
    }
}

#[test]
fn times_are_multiplied_by_a_whole_number_and_never_made_shorter() {
    let scaled = find("smart-idle-poll").and_then(|it| it.scaled).unwrap();
    let of = |here: Option<u64>| scaled.factor(here.map(Nanos));
    let factors = [Some(8_000), Some(21_800), Some(22_000), Some(47_000), None].map(of);
    assert_eq!(factors, [1, 1, 2, 3, 1]);
}

#[test]
fn a_round_without_the_figure_is_left_out() {
    let pairs = [(Some(1.0), Some(2.0)), (None, Some(9.0)), (Some(1.0), None)];
    assert_eq!(Change::of(&pairs).unwrap().difference.rounds, 1);
    assert_eq!(Change::of(&pairs[1..]), None);
}

#[test]
fn blocks_fit_the_budget() {
    for variants in [1, 4, 28, 100] {
        let budget = Nanos(70_000_000_000);
        let block = block_length(budget, variants);
        assert!(block.0 * 8 * variants as u64 <= budget.0, "{variants}");
    }
    assert_eq!(block_length(Nanos(0), 9), Nanos(30_000_000));
    assert_eq!(block_length(Nanos(u64::MAX), 0), Nanos(1_000_000_000));
}

#[test]
fn every_experiment_is_whole() {
    let names: BTreeSet<_> = EXPERIMENTS.iter().map(|e| e.name).collect();
    assert_eq!(names.len(), EXPERIMENTS.len(), "names differ");
    for experiment in EXPERIMENTS {
        let name = experiment.name;
        assert_eq!(find(name).map(|found| found.name), Some(name));
        assert_ne!(name, "all");
        let variants = (experiment.variants)();
        let distinct: BTreeSet<_> = variants.iter().map(|v| (&v.group, &v.name)).collect();
        assert_eq!(distinct.len(), variants.len(), "{name}: variants differ");
        assert!(!experiment.source.reports.is_empty(), "{name}");
        assert!(!(experiment.effects)().is_empty(), "{name} shows something");
    }
}

fn counts() -> VcpuOutcome {
    let mut waits = KvmHist::default();
    waits.0[17] = 8;
    let stats = [
        ("halt_exits", 12),
        ("halt_attempted_poll", 5),
        ("halt_successful_poll", 3),
        ("halt_poll_success_ns", 300),
        ("halt_poll_fail_ns", 200),
    ];
    VcpuOutcome {
        exits: [("pio-out".to_owned(), 3)].into(),
        stats: stats.map(|(name, count)| (name.to_owned(), count)).into(),
        hist: [("halt_wait_hist".to_owned(), waits)].into(),
        ..VcpuOutcome::default()
    }
}

fn report(waits: u64, halts: u64) -> serde_json::Value {
    json!({
        "recording": {"lost": 0},
        "vms": [{"vcpus": [{"id": 0, "account": {
            "halts": halts, "waits": waits,
            "poll": {"polled": 5, "successful": 3},
            "parts": {"poll_success_ns": 300, "poll_fail_ns": 200},
        }}]}],
    })
}

#[test]
fn a_witness_agrees_to_the_unit_or_says_where_not() {
    let exits = |count: u64| {
        json!({"total": {"exits": 9, "other": 0},
               "userspace": [{"name": "KVM_EXIT_IO", "count": count}]})
    };
    for (waits, halts, told, agrees) in [
        (8, 11, 4, true),
        (8, 12, 4, true),
        // Fewer halts than waits and polls, or more than HLT exits, cannot be.
        (8, 10, 4, false),
        (8, 13, 4, false),
        (7, 11, 4, false),
        (8, 11, 3, false),
    ] {
        let witness = compare(&[counts()], &report(waits, halts), Ok(exits(told)));
        assert_eq!(witness.agrees(), Some(agrees), "{witness:?}");
    }
    let silent = compare(
        &[counts()],
        &report(8, 11),
        Err(anyhow::anyhow!("no exits")),
    );
    let Witness::Yes { missing, .. } = &silent else {
        panic!("{silent:?}")
    };
    assert_eq!(missing, &["exits: no exits"]);
    assert_eq!(
        Witness::No {
            reason: String::new()
        }
        .agrees(),
        None
    );
}
