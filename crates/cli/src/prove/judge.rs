//! From what was measured to what is said.

use std::collections::BTreeMap;

use haltwise_core::prove::compare::{Comparison, Round, Verdict};
use haltwise_core::prove::figure::{Figure, Figures};
use haltwise_core::prove::predict::Prediction;
use haltwise_core::prove::schedule::Block;
use haltwise_core::recording::Side;
use haltwise_core::replay::session::Played;
use haltwise_core::replay::{Cost, Outcome};
use haltwise_core::stats::FEWEST;
use haltwise_core::stats::median_estimate;
use haltwise_core::units::Nanos;

use super::ProofRequest;
use super::experiment::{Experiment, Measured};
use super::sides::{Sides, Which};
use crate::SEED;
use crate::exit::Failure;
use crate::prices::price::Price;
use crate::prices::{self, Known};
use crate::proof::{
    MeasuredBlock, MeasuredFigure, MeasuredHost, Predictions, Proof, ProofCost, ProofDesign,
    ProvenSetting,
};

/// The smallest difference that matters, as a share of A: a smaller one says that there is none.
const DETECT: f64 = 0.1;

pub(crate) fn view(wanted: &ProofRequest, measured: &Experiment<'_>) -> Result<Proof, Failure> {
    let price = measured.price.as_ref();
    let known = prices::know(&wanted.given.costs, price, &measured.survey)?;
    let side = measured.sides.side;
    let (cost, price) = cost_of(wanted, &known, side);
    let rounds: Vec<[&Measured; 3]> = measured.rounds.iter().filter_map(|r| sorted(r)).collect();
    let of = |block: &Measured| figures(block, &measured.sides, &cost);
    let table: Vec<Round> = rounds.iter().map(|round| round.map(of)).collect();
    let compared = Figure::ALL.into_iter();
    let compared: Vec<Comparison> = compared
        .filter_map(|figure| Comparison::of(figure, &table))
        .collect();
    let main = compared.iter().find(|one| one.figure == Figure::Cost);
    let verdict = main.map_or(Verdict::TooFewRounds { needed: FEWEST }, |main| {
        main.verdict(DETECT)
    });
    let blocks = blocks(measured, &cost);
    let name = rustix::system::uname();
    let sides = &measured.sides;
    let [a, b] = wanted.specs();
    Ok(Proof {
        schema: crate::proof::schema(side),
        side,
        a: ProvenSetting::new(a, &sides.values(Which::A)),
        b: ProvenSetting::new(b, &sides.values(Which::B)),
        means: measured.means.name().to_owned(),
        command: command(wanted),
        host: MeasuredHost {
            hostname: name.nodename().to_string_lossy().into_owned(),
            kernel: name.release().to_string_lossy().into_owned(),
            rung: measured.watcher.collector().rung().to_string(),
            knobs_assumed: sides.assumed.iter().map(|&name| name.to_owned()).collect(),
            cpu_pressure: mean(rounds.iter().flatten().map(|it| it.used.cpu_pressure)),
        },
        design: design(wanted, &rounds),
        cost: ProofCost {
            switch_cpu_ns: known.switch_cpu_ns,
            switch_cpu_source: known.source,
            latency_weight: wanted.latency_weight_milli as f64 / 1e3,
            price,
        },
        verdict,
        predictions: predictions(&rounds, (table.as_slice(), sides), &compared, &cost),
        scopes: (sides.scopes).proven(
            &rounds,
            &cost,
            (sides.ceiling_ns(false), sides.ceiling_ns(true)),
        ),
        missing: missing(wanted, measured, &compared),
        figures: compared.into_iter().map(figure).collect(),
        lost: blocks.iter().map(|block| block.lost).sum(),
        blocks,
        partial: rounds.len() < wanted.given.rounds as usize,
        ended_by: measured.ended_by.to_owned(),
        ledger: None,
    })
}

fn mean(all: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) = all
        .flatten()
        .fold((0.0, 0.0), |(sum, count), of| (sum + of, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// The words of the command, unless it is to be kept out of the result.
fn command(wanted: &ProofRequest) -> Vec<String> {
    let words = wanted
        .given
        .command
        .iter()
        .filter(|_| !wanted.given.no_command);
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Costs, and in a guest the price of exits and IPIs: under every setting of a host each halt exits.
fn cost_of(wanted: &ProofRequest, known: &Known, side: Side) -> (Cost, Option<Price>) {
    let cost = Cost {
        switch_cpu_ns: known.switch_cpu_ns,
        latency_weight_milli: wanted.latency_weight_milli,
        ..Cost::FREE
    };
    match side {
        Side::Host => (cost, None),
        Side::Guest => {
            let price = Price::new(wanted.given.price, known.prices(side));
            (price.on(cost), Some(price))
        }
    }
}

/// A round's blocks as A, B and control; `None` of a round that was cut short.
fn sorted(round: &[Measured]) -> Option<[&Measured; 3]> {
    let find = |wanted| round.iter().find(|measured| measured.block == wanted);
    Some([find(Block::A)?, find(Block::B)?, find(Block::Control)?])
}

fn figures(measured: &Measured, sides: &Sides, cost: &Cost) -> Figures {
    let figures = of(&measured.tally.recorded, measured, sides, cost);
    by_goals(&figures, measured, sides, false, cost)
        .with(Figure::ContextSwitches, switches(measured, sides))
        .with(Figure::VcpuCpu, measured.used.vcpu_percent)
        .with(Figure::Awake, measured.used.awake_percent)
        .with(Figure::Cycles, measured.used.cycles_per_s)
        .with(Figure::Power, measured.used.watts)
        .with(Figure::Metric, measured.metric)
}

fn of(outcome: &Outcome, measured: &Measured, sides: &Sides, cost: &Cost) -> Figures {
    let figures = Figures::of(outcome, measured.tally.vcpus, cost);
    match sides.side {
        Side::Host => figures,
        Side::Guest => figures.with_exits_of(outcome),
    }
}

fn switches(measured: &Measured, sides: &Sides) -> Option<f64> {
    let per_s = measured.used.switches_per_s?;
    let halts_per_s = measured.tally.recorded.halts as f64 / measured.seconds;
    (!sides.side.is_host() && halts_per_s > 0.0).then(|| per_s / halts_per_s)
}

/// With the cost of a halt by each VM's own goal, where a plan has such.
fn by_goals(
    figures: &Figures,
    measured: &Measured,
    sides: &Sides,
    predicted: bool,
    cost: &Cost,
) -> Figures {
    if measured.scopes.is_empty() {
        return *figures;
    }
    let mixed = sides.scopes.mixed(&measured.scopes, predicted, cost);
    figures.with(Figure::Cost, mixed)
}

fn predicted(measured: &Measured, sides: &Sides, cost: &Cost) -> Figures {
    let tally = &measured.tally;
    let played = tally.predicted.as_ref();
    played.map_or_else(Figures::default, |played| {
        let figures = of(&played.from_zero, measured, sides, cost);
        by_goals(&figures, measured, sides, true, cost)
    })
}

fn design(wanted: &ProofRequest, rounds: &[[&Measured; 3]]) -> ProofDesign {
    let blocks = || rounds.iter().flatten();
    let median = |values: Vec<f64>| median_estimate(&values).map_or(0.0, |found| found.median);
    ProofDesign {
        rounds: rounds.len() as u64,
        rounds_wanted: wanted.given.rounds,
        seed: SEED,
        warm_up_ns: wanted.given.warm_up.map(|Nanos(ns)| ns),
        block_seconds: median(blocks().map(|block| block.seconds).collect()),
        block_halts: median(
            blocks()
                .map(|block| block.tally.recorded.halts as f64)
                .collect(),
        ),
        vms: blocks().map(|block| block.vms as u64).max().unwrap_or(0),
        detect_percent: DETECT * 100.0,
    }
}

fn figure(comparison: Comparison) -> MeasuredFigure {
    let effect = comparison.effect;
    let share = comparison.share_of_a(effect.estimate);
    MeasuredFigure {
        unit: comparison.figure.unit(),
        effect_percent: share.map(|share| share * 100.0),
        differs: matches!(comparison.verdict(0.0), Verdict::Better | Verdict::Worse),
        comparison,
    }
}

fn predictions(
    rounds: &[[&Measured; 3]],
    (table, sides): (&[Round], &Sides),
    compared: &[Comparison],
    cost: &Cost,
) -> Predictions {
    let held = |from: usize, to: usize| -> Vec<Prediction> {
        let both = rounds.iter().zip(table);
        let pairs = both
            .map(|(blocks, round)| [round[from], predicted(blocks[from], sides, cost), round[to]]);
        let pairs: Vec<Round> = pairs.collect();
        let known = compared.iter();
        let known = known.filter(|one| Figure::PREDICTED.contains(&one.figure));
        known
            .filter_map(|one| Prediction::of(one, &pairs))
            .collect()
    };
    let bistable = |of: usize| {
        let played = rounds
            .iter()
            .filter_map(|round| round[of].tally.predicted.as_ref());
        played.filter(|played| played.is_bistable(cost)).count() as u64
    };
    let mut notes = Vec::new();
    for (from, name, other) in [(0, "A", "B"), (1, "B", "A")] {
        let blind = rounds
            .iter()
            .filter(|round| round[from].tally.predicted.is_none())
            .count();
        if blind > 0 {
            notes.push(format!(
                "{other} is not predicted from {blind} of {} blocks under {name}: no halt slept in \
                 them, so the wake-up latency is unknown; give --calibration or --wake-latency",
                rounds.len()
            ));
        }
    }
    for (from, name, other) in [(0, "A", "B"), (1, "B", "A")] {
        notes.extend(wakes_note(rounds, from, name, other));
    }
    Predictions {
        of_b: held(0, 1),
        of_a: held(1, 0),
        bistable_b: bistable(0),
        bistable_a: bistable(1),
        notes,
    }
}

/// How far what is predicted depends on wake-ups that the blocks do not show. `None` where that makes less
/// than a point of the halts.
fn wakes_note(rounds: &[[&Measured; 3]], from: usize, name: &str, other: &str) -> Option<String> {
    let mut sum = Played::default();
    for played in (rounds.iter()).filter_map(|round| round[from].tally.predicted.as_ref()) {
        sum.add(played);
    }
    let share = |of: &Outcome| 100.0 * of.successful_polls as f64 / (of.halts.max(1) as f64);
    let known = share(&sum.from_zero);
    let [early, late] = [&sum.early, &sum.late].map(|it| it.as_ref().map_or(known, share));
    let (low, high) = (early.min(late).min(known), early.max(late).max(known));
    (high - low >= 1.0).then(|| {
        format!(
            "blocks under {name} do not show all wake-ups that {other} would have. With these as early or as \
             late as they may be, {other} would catch {low:.1} to {high:.1} % of the halts by polling, \
             predicted {known:.1} %"
        )
    })
}

fn missing(
    wanted: &ProofRequest,
    measured: &Experiment<'_>,
    compared: &[Comparison],
) -> BTreeMap<String, String> {
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    let (side, known) = (measured.sides.side, measured.missing());
    for figure in Figure::ALL.into_iter().filter(|it| it.is_of(side)) {
        if compared.iter().any(|one| one.figure == figure) {
            continue;
        }
        let told = known.iter().find(|(name, _)| *name == figure.as_str());
        let why = match (figure, told) {
            (_, Some((_, why))) => why.clone(),
            (Figure::Metric, None) if wanted.given.metric.is_none() => continue,
            (Figure::Metric, None) => "no round has it in all blocks".to_owned(),
            (Figure::Cost | Figure::PollCpu | Figure::SuccessfulPolls, None) => {
                "polling time was not recorded".to_owned()
            }
            (_, None) => "blocks are too short to read it twice".to_owned(),
        };
        missing.insert(figure.as_str().to_owned(), why);
    }
    missing
}

fn blocks(measured: &Experiment<'_>, cost: &Cost) -> Vec<MeasuredBlock> {
    let mut blocks = Vec::new();
    for (round, in_round) in measured.rounds.iter().enumerate() {
        for one in in_round {
            let of = |figures: Figures| {
                let known = Figure::ALL.into_iter();
                known
                    .filter_map(|figure| Some((figure, figures.get(figure)?)))
                    .collect()
            };
            blocks.push(MeasuredBlock {
                number: blocks.len() as u64 + 1,
                round: round as u64 + 1,
                block: one.block,
                seconds: one.seconds,
                vms: one.vms as u64,
                halts: one.tally.recorded.halts,
                lost: one.lost,
                figures: of(figures(one, &measured.sides, cost)),
                predicted: of(predicted(one, &measured.sides, cost)),
                notes: one.notes.clone(),
            });
        }
    }
    blocks
}
