//! All effects and checks of an experiment, from its blocks: those measured just now, or those of a kept run.
//!
//! A kept run is judged by the rules and under the words of this version ([`judge`]): what was measured stays
//! as it is, verdicts and sources are of the registry.

use super::found::{Found, FoundEffect, FoundIntegrity, Report};
use super::judge::{SameDirection, demand, direction};
use super::registry::find;
use super::results::Results;
use super::witness::Witness;
use super::{Block, Effect, Experiment, Integrity, Variant};

pub fn effects(results: &Results<'_>) -> Vec<FoundEffect> {
    let found = |effect: Effect| {
        let change = results.between(&effect.figure, &effect.group, &effect.from, &effect.to);
        let from_median = results.median(&effect.group, &effect.from, &effect.figure);
        let same_direction = match (from_median, &change) {
            (Some(from), Some(change)) => direction(effect.expected, from, change),
            _ => SameDirection::NotShown,
        };
        FoundEffect {
            from_median,
            to_median: results.median(&effect.group, &effect.to, &effect.figure),
            difference: change.map(|change| change.difference),
            ratio: change.and_then(|change| change.ratio),
            same_direction,
            effect,
        }
    };
    (results.experiment.effects)()
        .into_iter()
        .map(found)
        .collect()
}

/// The checks of an experiment, and the one that every experiment has: `haltwise` counted the same.
pub fn integrity(results: &Results<'_>, witness: &Witness) -> Vec<FoundIntegrity> {
    let checks = (results.experiment.integrity)();
    let own = checks.iter().map(|check| of_blocks(results, check));
    own.chain(std::iter::once(of_witness(witness))).collect()
}

fn of_blocks(results: &Results<'_>, check: &Integrity) -> FoundIntegrity {
    let variants = results.variants.iter().enumerate();
    let concerned = variants.filter(|(_, variant)| check.concerns(variant));
    let values = concerned.flat_map(|(index, _)| results.samples(index, check.figure));
    let (mut checked, mut broken) = (0, 0);
    for value in values {
        checked += 1;
        // Counts and flags: nothing is rounded.
        broken += usize::from(value.total_cmp(&check.demanded).is_ne());
    }
    FoundIntegrity {
        what: check.what.to_owned(),
        group: check.group.to_owned(),
        demanded: format!("{} = {}", check.figure, check.demanded),
        checked,
        broken,
        holds: demand(checked, broken),
    }
}

fn of_witness(witness: &Witness) -> FoundIntegrity {
    let checks = match witness {
        Witness::Yes { checks, .. } => checks.as_slice(),
        Witness::No { .. } => &[],
    };
    let broken = checks.iter().filter(|check| !check.is_within()).count();
    FoundIntegrity {
        what: "haltwise counted the same".to_owned(),
        group: String::new(),
        demanded: "each count within the lab's".to_owned(),
        checked: checks.len(),
        broken,
        holds: demand(checks.len(), broken),
    }
}

/// A kept run, judged by this version. An experiment that it does not know is left out.
pub fn judge(report: Report) -> Report {
    let one = |found: Found| match (find(&found.name)?, &found.failed) {
        (experiment, None) => Some(judge_one(experiment, found)),
        _ => Some(found),
    };
    Report {
        experiments: report.experiments.into_iter().filter_map(one).collect(),
        ..report
    }
}

fn judge_one(experiment: &Experiment, found: Found) -> Found {
    let variants = (experiment.variants)();
    let rounds = blocks(experiment, &variants, &found);
    let results = Results {
        experiment,
        variants: &variants,
        rounds: &rounds,
        further: None,
    };
    let of_registry = Found::nothing_of(experiment);
    Found {
        title: of_registry.title,
        source: of_registry.source,
        limits: of_registry.limits,
        effects: effects(&results),
        integrity: integrity(&results, &found.witness),
        ..found
    }
}

/// The blocks of a kept run, with what they kept: figures, by round and by the registry's variants.
fn blocks(experiment: &Experiment, variants: &[Variant], found: &Found) -> Vec<Vec<Block>> {
    let block = |round: usize, variant: &Variant| {
        let is = |kept: &&super::found::FoundVariant| {
            kept.variant.group == variant.group && kept.variant.name == variant.name
        };
        let samples = found.variants.iter().find(is).map(|kept| &kept.samples);
        let value = |name: &str| {
            let mut figures = found.figures.iter();
            let index = figures.position(|figure| figure.name == name)?;
            *samples?.get(index)?.get(round)?
        };
        let figures = experiment.figures.iter();
        figures.fold(Block::default(), |block, figure| {
            block.with(&figure.name, value(&figure.name))
        })
    };
    let round = |round| {
        variants
            .iter()
            .map(|variant| block(round, variant))
            .collect()
    };
    (0..found.rounds).map(round).collect()
}
