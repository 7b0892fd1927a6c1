//! Laws of every experiment there is: swapped variants refute its effects, and one broken value its checks.
//!
//! Figures are made up so that an effect is met, whatever the experiment measures; then the two variants
//! change places, or a value is broken. An effect or a check that nothing refutes shows nothing, and fails here.

use super::*;
use crate::experiment::conduct::is_decided;
use crate::experiment::results::Results;
use crate::experiment::verdicts::{effects, integrity};
use crate::experiment::witness::Check;
use crate::experiment::{Block, Effect, Experiment, Integrity, Variant};

const ROUNDS: u32 = 8;

/// Rounds in which every figure of every variant is `value(round, variant, figure)`.
fn rounds(
    experiment: &Experiment,
    variants: &[Variant],
    value: impl Fn(u32, &Variant, &str) -> f64,
) -> Vec<Vec<Block>> {
    let block = |round: u32, variant: &Variant| {
        let figures = experiment.figures.iter();
        figures.fold(Block::default(), |block, figure| {
            block.with(&figure.name, value(round, variant, &figure.name))
        })
    };
    let blocks = |round: u32| {
        variants
            .iter()
            .map(|variant| block(round, variant))
            .collect()
    };
    (0..ROUNDS).map(blocks).collect()
}

fn results<'a>(
    experiment: &'a Experiment,
    variants: &'a [Variant],
    rounds: &'a [Vec<Block>],
) -> Results<'a> {
    Results {
        experiment,
        variants,
        rounds,
        further: None,
    }
}

fn verdict_of_effect(
    experiment: &Experiment,
    index: usize,
    effect: &Effect,
    sides: [f64; 2],
) -> SameDirection {
    let variants = (experiment.variants)();
    let value = |round: u32, variant: &Variant, figure: &str| {
        // Rounds differ, as they do.
        let drift = 1.0 + f64::from(round) / 1_000.0;
        let is = |side: &str| {
            (variant.group.as_str(), variant.name.as_str(), figure)
                == (effect.group.as_str(), side, &*effect.figure)
        };
        let [from, to] = sides;
        let measured = match (is(&effect.from), is(&effect.to)) {
            (true, _) => from,
            (_, true) => to,
            _ => 7.0,
        };
        measured * drift
    };
    let rounds = rounds(experiment, &variants, value);
    effects(&results(experiment, &variants, &rounds))[index].same_direction
}

#[test]
fn swapped_variants_refute_every_effect_of_every_experiment() {
    for experiment in EXPERIMENTS {
        let effects = (experiment.effects)();
        for (index, effect) in effects.iter().enumerate() {
            // Values that meet the expectation by far.
            let [from, to] = match effect.expected {
                Expected::Less | Expected::NoMoreThan(_) => [100.0, 10.0],
                Expected::More | Expected::NoLessThan(_) => [10.0, 100.0],
            };
            let name = format!("{}: {}: {}", experiment.name, effect.group, effect.what);
            let verdict = |sides| verdict_of_effect(experiment, index, effect, sides);
            assert_eq!(verdict([from, to]), SameDirection::Yes, "{name}");
            assert_eq!(verdict([to, from]), SameDirection::No, "{name}, swapped");
        }
    }
}

/// The verdicts of an experiment's checks where a block has another value than is demanded, if `broken` says so.
fn verdicts_of_checks(
    experiment: &Experiment,
    witness: &Witness,
    broken: impl Fn(u32, &Variant, &Integrity) -> bool,
) -> Vec<SameDirection> {
    let variants = (experiment.variants)();
    let checks = (experiment.integrity)();
    let value = |round: u32, variant: &Variant, figure: &str| {
        let is = |check: &&Integrity| check.figure == figure && check.concerns(variant);
        match checks.iter().find(is) {
            // A flag is turned over; a count is one more.
            Some(check) if broken(round, variant, check) => (1.0 - check.demanded).abs(),
            Some(check) => check.demanded,
            None => 7.0,
        }
    };
    let rounds = rounds(experiment, &variants, value);
    let found = integrity(&results(experiment, &variants, &rounds), witness);
    found.iter().map(|check| check.holds).collect()
}

/// A cross-check of three counts, the last of them so much beside the lab's.
fn witness(beside: u64) -> Witness {
    let check = |count: u64, beside: u64| Check {
        what: "a count".to_owned(),
        lab: (count, count),
        haltwise: count + beside,
        // Kept runs say so themselves; the counts decide.
        agrees: true,
    };
    Witness::Yes {
        checks: vec![check(7, 0), check(0, 0), check(9, beside)],
        vcpus: 1,
        lost: 0,
        missing: Vec::new(),
    }
}

#[test]
fn one_broken_value_refutes_every_check_of_every_experiment() {
    let never = |_: u32, _: &Variant, _: &Integrity| false;
    for experiment in EXPERIMENTS {
        let name = experiment.name;
        let checks = (experiment.integrity)();
        let whole = verdicts_of_checks(experiment, &witness(0), never);
        // Every experiment has one more: haltwise counted the same.
        assert_eq!(whole, vec![SameDirection::Yes; checks.len() + 1], "{name}");
        let counted = verdicts_of_checks(experiment, &witness(1), never);
        assert_eq!(counted.last(), Some(&SameDirection::No), "{name}");
        for (index, check) in checks.iter().enumerate() {
            let variants = (experiment.variants)();
            let mut concerned = variants.iter().filter(|v| check.concerns(v)).peekable();
            assert!(concerned.peek().is_some(), "{name}: {}", check.what);
            for variant in concerned {
                let once = |round: u32, at: &Variant, of: &Integrity| {
                    round == 3 && at == variant && of == check
                };
                let verdicts = verdicts_of_checks(experiment, &witness(0), once);
                assert_eq!(verdicts[index], SameDirection::No, "{name}: {}", check.what);
                let others = verdicts.iter().filter(|v| **v == SameDirection::No);
                assert_eq!(others.count(), 1, "{name}: {}", check.what);
            }
        }
        // A value that is broken everywhere is equal everywhere, and still broken.
        let everywhere = verdicts_of_checks(experiment, &witness(1), |_, _, _| true);
        assert!(everywhere.iter().all(|v| *v == SameDirection::No), "{name}");
    }
}

#[test]
fn what_was_not_measured_is_not_shown() {
    for experiment in EXPERIMENTS {
        let variants = (experiment.variants)();
        let blank = vec![vec![Block::default(); variants.len()]; 9];
        let of_rounds = |count: usize| results(experiment, &variants, &blank[..count]);
        let silent = Witness::No {
            reason: String::new(),
        };
        let checks = integrity(&of_rounds(8), &silent);
        let of_checks = checks.iter().map(|check| check.holds);
        let found = effects(&of_rounds(8));
        let mut all = of_checks.chain(found.iter().map(|effect| effect.same_direction));
        assert!(all.all(|it| it == SameDirection::NotShown));
        // Blank blocks cannot be decided by more rounds; blocks without a change might be. 7 and 9 rounds are not checked.
        let looks = [7, 8, 9].map(|count| is_decided(&of_rounds(count)));
        assert_eq!(looks, [false, true, false]);
        let same = rounds(experiment, &variants, |_, _, _| 7.0);
        assert!(!is_decided(&results(experiment, &variants, &same)));
    }
}
