//! From what was measured to what is said.

use std::collections::BTreeMap;

use haltwise_core::prove::compare::{Block, Prediction};
use haltwise_core::prove::compare::{Comparison, Round, Verdict};
use haltwise_core::prove::figure::{Figure, Figures};
use haltwise_core::prove::tally::Tally;
use haltwise_core::recording::Side;
use haltwise_core::replay::session::Played;
use haltwise_core::replay::{Cost, Outcome};
use haltwise_core::stats::{FEWEST, folded, median_estimate};
use haltwise_core::units::Nanos;

use super::experiment::{Experiment, Measured};
use super::sides::Sides;
use super::{ProofRequest, meters};
use crate::SEED;
use crate::exit::Failure;
use crate::figures::PolledBar;
use crate::prices::price::Price;
use crate::prices::{self, Known};
use crate::proof::{
    MeasuredBlock, MeasuredFigure, MeasuredHost, Predictions, Proof, ProofCost, ProofDesign,
    ProvenScope, ProvenSetting,
};

/// The smallest difference that matters, as a share of A: a smaller one says that there is none.
const DETECT: f64 = 0.1;

pub(crate) fn view(wanted: &ProofRequest, measured: &Experiment<'_>) -> Result<Proof, Failure> {
    let price = measured.price.as_ref();
    let known = prices::know(&wanted.given.costs, price, &measured.survey)?;
    let sides = &measured.sides;
    let (cost, price) = cost_of(wanted, &known, sides.side);
    let rounds: Vec<[&Measured; 3]> = measured.rounds.iter().filter_map(|r| sorted(r)).collect();
    let judge = Judge {
        sides,
        cost,
        rounds: &rounds,
    };
    let table: Vec<Round> = rounds
        .iter()
        .map(|round| round.map(|block| judge.figures(block, false)))
        .collect();
    let compared = Figure::ALL.into_iter();
    let compared: Vec<Comparison> = compared
        .filter_map(|figure| Comparison::of(figure, &table))
        .collect();
    let main = compared.iter().find(|one| one.figure == Figure::Cost);
    let verdict = main.map_or(Verdict::TooFewRounds { needed: FEWEST }, |main| {
        main.verdict(DETECT)
    });
    let blocks = judge.blocks(&measured.rounds);
    let name = rustix::system::uname();
    let [a, b] = wanted.specs();
    Ok(Proof {
        schema: crate::proof::schema(sides.side),
        side: sides.side,
        a: ProvenSetting::new(a, sides.values(false)),
        b: ProvenSetting::new(b, sides.values(true)),
        means: measured.means().to_owned(),
        command: command(wanted),
        host: MeasuredHost {
            hostname: name.nodename().to_string_lossy().into_owned(),
            kernel: name.release().to_string_lossy().into_owned(),
            rung: measured.watcher.collector.rung().to_string(),
            knobs_assumed: sides.assumed.iter().map(|&name| name.to_owned()).collect(),
            cpu_pressure: mean(
                rounds
                    .iter()
                    .flatten()
                    .map(|it| it.watched.used.cpu_pressure),
            ),
        },
        design: design(wanted, &rounds),
        cost: ProofCost {
            switch_cpu_ns: known.switch_cpu_ns,
            switch_cpu_source: known.source,
            latency_weight: wanted.latency_weight_milli as f64 / 1e3,
            price,
        },
        verdict,
        predictions: judge.predictions(&table, &compared),
        scopes: (sides.scopes.places())
            .filter_map(|place| judge.scope(place))
            .collect(),
        polled: PolledBar::of(
            [0, 1]
                .map(|of| folded(rounds.iter().map(|it| &it[of].account)))
                .each_ref(),
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

/// Result of the halts of a block, or of their replay under the other setting.
fn outcome(tally: &Tally, predicted: bool) -> Option<&Outcome> {
    if predicted {
        tally.predicted.as_ref().map(|played| &played.from_zero)
    } else {
        Some(&tally.recorded)
    }
}

struct Judge<'a> {
    sides: &'a Sides,
    cost: Cost,
    rounds: &'a [[&'a Measured; 3]],
}

impl Judge<'_> {
    /// Figures of a block as measured, or as a replay predicts them for the other setting.
    fn figures(&self, block: &Measured, predicted: bool) -> Figures {
        let Some(outcome) = outcome(&block.tally, predicted) else {
            return Figures::default();
        };
        let mut figures = Figures::of(outcome, block.tally.vcpus, &self.cost);
        if !self.sides.side.is_host() {
            figures = figures.with_exits_of(outcome);
        }
        if !block.scopes.is_empty() {
            figures = figures.with(Figure::Cost, self.cost_by_goals(block, predicted));
        }
        if predicted {
            return figures;
        }
        figures
            .with(Figure::ContextSwitches, self.switches(block))
            .with(Figure::VcpuCpu, block.watched.used.vcpu_percent)
            .with(Figure::Awake, block.watched.used.awake_percent)
            .with(Figure::Cycles, block.watched.used.cycles_per_s)
            .with(Figure::Power, block.watched.used.watts)
            .with(Figure::Metric, block.metric)
    }

    /// The mean cost of a halt, in each VM by its own goal. `None` where something of it is not known.
    fn cost_by_goals(&self, block: &Measured, predicted: bool) -> Option<f64> {
        let (mut sum, mut halts) = (0.0, 0.0);
        for (place, tally) in &block.scopes {
            let count = outcome(tally, predicted)?.halts as f64;
            sum += self.cost_in(*place, tally, predicted).get(Figure::Cost)? * count;
            halts += count;
        }
        (halts > 0.0).then(|| sum / halts)
    }

    fn cost_in(&self, place: usize, tally: &Tally, predicted: bool) -> Figures {
        let cost = self.sides.scopes.cost(place, &self.cost);
        let outcome = outcome(tally, predicted);
        outcome.map_or_else(Figures::default, |it| Figures::of(it, tally.vcpus, &cost))
    }

    fn switches(&self, block: &Measured) -> Option<f64> {
        let per_s = block.watched.used.switches_per_s?;
        let halts_per_s = block.tally.recorded.halts as f64 / block.watched.seconds;
        (!self.sides.side.is_host() && halts_per_s > 0.0).then(|| per_s / halts_per_s)
    }

    /// The comparison of one scope over the rounds that have it in each block.
    fn scope(&self, place: usize) -> Option<ProvenScope> {
        let (mut table, mut pairs) = (Vec::new(), Vec::new());
        let mut halts = 0;
        for round in self.rounds {
            let [a, b, control] = round.map(|block| block.scopes.get(&place));
            let (Some(a), Some(b), Some(control)) = (a, b, control) else {
                continue;
            };
            halts += a.recorded.halts + b.recorded.halts + control.recorded.halts;
            let measured = [a, b, control].map(|tally| self.cost_in(place, tally, false));
            table.push(measured);
            pairs.push([measured[0], self.cost_in(place, a, true), measured[1]]);
        }
        let comparison = Comparison::of(Figure::Cost, &table)?;
        let predicted = Prediction::of(&comparison, &pairs);
        let (vm, [a_halt_poll_ns, b_halt_poll_ns]) = self.sides.scopes.ceilings(place);
        let cost = self.sides.scopes.cost(place, &self.cost);
        Some(ProvenScope {
            vm,
            a_halt_poll_ns,
            b_halt_poll_ns,
            latency_weight: cost.latency_weight_milli as f64 / 1e3,
            halts,
            a: comparison.a,
            b: comparison.b,
            effect: comparison.effect,
            noise: comparison.noise,
            predicted: predicted.map(|it| it.predicted),
            within: predicted.map(|it| it.within),
        })
    }

    /// Predictions of replays for each setting, from the blocks under the other.
    fn predictions(&self, table: &[Round], compared: &[Comparison]) -> Predictions {
        let held = |from: usize, to: usize| -> Vec<Prediction> {
            let both = self.rounds.iter().zip(table);
            let pairs = both.map(|(blocks, round)| {
                let predicted = self.figures(blocks[from], true);
                [round[from], predicted, round[to]]
            });
            let pairs: Vec<Round> = pairs.collect();
            let known = compared.iter();
            let known = known.filter(|one| Figure::PREDICTED.contains(&one.figure));
            known
                .filter_map(|one| Prediction::of(one, &pairs))
                .collect()
        };
        let bistable = |of: usize| {
            let played = self.played(of);
            played.filter(|it| it.is_bistable(&self.cost)).count() as u64
        };
        let pairs = [(0, "A", "B"), (1, "B", "A")];
        let blind = pairs.into_iter().filter_map(|(from, name, other)| {
            let blind = self.rounds.len() - self.played(from).count();
            (blind > 0).then(|| {
                format!(
                    "{other} is not predicted from {blind} of {} blocks under {name}: no halt slept in \
                     them, so the wake-up latency is unknown; give --calibration or --wake-latency",
                    self.rounds.len()
                )
            })
        });
        Predictions {
            of_b: held(0, 1),
            of_a: held(1, 0),
            bistable_b: bistable(0),
            bistable_a: bistable(1),
            notes: blind.collect(),
        }
    }

    fn played(&self, of: usize) -> impl Iterator<Item = &Played> {
        let rounds = self.rounds.iter();
        rounds.filter_map(move |round| round[of].tally.predicted.as_ref())
    }

    /// All blocks, also of a round that was cut short.
    fn blocks(&self, rounds: &[Vec<Measured>]) -> Vec<MeasuredBlock> {
        let numbered = (1..).zip(rounds);
        let all = numbered.flat_map(|(round, blocks)| blocks.iter().map(move |it| (round, it)));
        let known = |figures: Figures| {
            let all = Figure::ALL.into_iter();
            all.filter_map(|figure| Some((figure, figures.get(figure)?)))
                .collect()
        };
        let block = |(number, (round, one)): (u64, (u64, &Measured))| MeasuredBlock {
            number,
            round,
            block: one.block,
            seconds: one.watched.seconds,
            vms: one.watched.vms as u64,
            halts: one.tally.recorded.halts,
            lost: one.watched.lost,
            figures: known(self.figures(one, false)),
            predicted: known(self.figures(one, true)),
            notes: one.watched.notes.clone(),
        };
        (1..).zip(all).map(block).collect()
    }
}

fn design(wanted: &ProofRequest, rounds: &[[&Measured; 3]]) -> ProofDesign {
    let blocks = || rounds.iter().flatten();
    let median = |values: Vec<f64>| median_estimate(&values).map_or(0.0, |found| found.median);
    ProofDesign {
        rounds: rounds.len() as u64,
        rounds_wanted: wanted.given.rounds,
        seed: SEED,
        warm_up_ns: wanted.given.warm_up.map(|Nanos(ns)| ns),
        block_seconds: median(blocks().map(|block| block.watched.seconds).collect()),
        block_halts: median(
            blocks()
                .map(|block| block.tally.recorded.halts as f64)
                .collect(),
        ),
        vms: blocks()
            .map(|block| block.watched.vms as u64)
            .max()
            .unwrap_or(0),
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

fn missing(
    wanted: &ProofRequest,
    measured: &Experiment<'_>,
    compared: &[Comparison],
) -> BTreeMap<String, String> {
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    let side = measured.sides.side;
    let known = meters::missing(&measured.root, side, &measured.watcher.cycles);
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
