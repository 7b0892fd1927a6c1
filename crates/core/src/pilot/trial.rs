//! A setting tried in drawn periods, by the schedule, the comparison and the verdict of [`crate::prove`]. A trial differs
//! from a proof in its end: the verdict is asked for twice, and a change of the load ends it.

use super::evidence::{Answer, Choice, Measured};
use super::view::OUTSIDE_EARLY;
use crate::kvm::Knobs;
use crate::prove::compare::{Block, Prediction, WARM_UP_PART, draw};
use crate::prove::compare::{Comparison, Verdict};
use crate::prove::figure::{Figure, Figures};
use crate::replay::Cost;
use crate::stats::{FEWEST, Interval};
use crate::tune::advice::LEAST_GAIN;

/// Rounds after which the first look is taken, and after which there is no more. Two looks of 95 % make one of 91 % at
/// the least; what is kept is looked at for as long as it is kept.
const LOOKS: [usize; 2] = [FEWEST, 2 * FEWEST];

const ROUNDS: u32 = 12;

/// Changes that a trial makes at most: one period of each round is under the setting tried.
pub(super) const MOST_CHANGES: usize = 2 * ROUNDS as usize + 1;

const _: () = assert!(
    ROUNDS as usize == LOOKS[1],
    "as many rounds are drawn as there are"
);

/// Halts that a period is to hold: a mean of so many that differ by as much as they are long is off by 3 %.
const HALTS: f64 = 1_000.0;

/// Lengths of a period: the window adapts within milliseconds, and ten seconds are what counts are taken over.
const LENGTH_NS: std::ops::RangeInclusive<u64> = 1_000_000_000..=10_000_000_000;

/// How long a period is for so many halts in a second.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped"
)]
pub(super) fn length_ns(halts_per_s: f64) -> u64 {
    let ns = HALTS * 1e9 / halts_per_s.max(1.0);
    (ns as u64).clamp(*LENGTH_NS.start(), *LENGTH_NS.end())
}

/// How long it takes where the first look decides.
pub(super) fn usual_ns(length_ns: u64) -> u64 {
    length_ns * (LOOKS[0] * Block::ALL.len()) as u64
}

#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) from: Knobs,
    pub(super) choice: Choice,
    pub(super) cost: Cost,
    pub(super) length_ns: u64,
    /// Halts per second of the load that the trial began with.
    halts_per_s: f64,
    /// CPU pressure when it began, where that was known.
    pub(super) pressure: Option<f64>,
    blocks: Vec<Block>,
    periods: Vec<Measured>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Next {
    Period,
    Changed,
    Keep(Outcome),
    Back(Option<Outcome>, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    pub(super) measured: Interval,
    /// Predicted less measured change, as a share, where something was predicted.
    pub(super) error: Option<f64>,
}

impl Trial {
    pub(super) fn new(
        from: Knobs,
        choice: Choice,
        answer: &Answer,
        pressure: Option<f64>,
        seed: u64,
    ) -> Self {
        Self {
            from,
            choice,
            cost: answer.cost,
            length_ns: length_ns(answer.halts_per_s),
            halts_per_s: answer.halts_per_s,
            pressure,
            blocks: draw(seed, ROUNDS).concat(),
            periods: Vec::new(),
        }
    }

    /// Whether the setting on trial is in force in the period under way.
    pub(super) fn is_on(&self) -> bool {
        let block = self.blocks.get(self.periods.len());
        block.is_some_and(|block| block.is_b())
    }

    /// The setting of the period under way, and the one that is not.
    pub(super) fn settings(&self) -> [Knobs; 2] {
        let (from, to) = (self.from, self.choice.knobs);
        if self.is_on() { [to, from] } else { [from, to] }
    }

    /// Periods that are over and were under the setting before.
    fn before(&self) -> impl DoubleEndedIterator<Item = &Measured> {
        let periods = self.blocks.iter().zip(&self.periods);
        let before = periods.filter(|(block, _)| !block.is_b());
        before.map(|(_, measured)| measured)
    }

    /// Mean cost of a halt under the setting before, so far, in nanoseconds.
    pub(super) fn before_per_halt_ns(&self) -> Option<f64> {
        let halts: u64 = self.before().map(|it| it.halts).sum();
        let cost_ns: f64 = self.before().map(|it| it.cost_ns).sum();
        (halts > 0).then(|| cost_ns / halts as f64)
    }

    /// The part of each period that does not count, and the one that does.
    pub(super) fn parts_ns(&self) -> [u64; 2] {
        let skip_ns = self.length_ns / WARM_UP_PART;
        [skip_ns, self.length_ns - skip_ns]
    }

    /// Whether a period under the setting before had another load than the trial began with.
    fn is_unlike(&self, before: &Measured) -> bool {
        let [_, recorded_ns] = self.parts_ns();
        let per_s = before.in_ns(before.halts as f64, 1e9, recorded_ns);
        // One halt in a second more or less is no other load.
        let ratio = (per_s + 1.0) / (self.halts_per_s + 1.0);
        ratio.ln().abs() > OUTSIDE_EARLY
    }

    pub(super) fn take(&mut self, measured: Measured) -> Next {
        self.periods.push(measured);
        let last = self.before().rev().take(2);
        if last.filter(|it| self.is_unlike(it)).count() == 2 {
            // The trial's measurements say nothing of the load that the trial began with.
            return Next::Changed;
        }
        let rounds = self.periods.len() / Block::ALL.len();
        let is_round = self.periods.len().is_multiple_of(Block::ALL.len());
        if is_round && LOOKS.contains(&rounds) {
            return self.look(rounds == LOOKS[1]);
        }
        Next::Period
    }

    fn look(&self, is_last: bool) -> Next {
        let Some((verdict, outcome)) = self.outcome() else {
            return Next::Back(None, "the periods held no halts");
        };
        match verdict {
            Verdict::Better => Next::Keep(outcome),
            Verdict::Worse => Next::Back(Some(outcome), "it costs more"),
            _ if !is_last => Next::Period,
            Verdict::NoDifference { .. } => Next::Back(Some(outcome), "no difference was measured"),
            _ => Next::Back(Some(outcome), "the host was too noisy to measure the gain"),
        }
    }

    fn rounds(&self) -> Vec<[Measured; 3]> {
        let places = Block::ALL.len();
        let rounds = self
            .blocks
            .chunks(places)
            .zip(self.periods.chunks_exact(places));
        let by_block = |(blocks, periods): (&[Block], &[Measured])| {
            let mut round = [Measured::default(); 3];
            for (block, measured) in blocks.iter().zip(periods) {
                round[*block as usize] = *measured;
            }
            round
        };
        rounds.map(by_block).collect()
    }

    fn outcome(&self) -> Option<(Verdict, Outcome)> {
        let figures = |per_halt_ns| Figures::default().with(Figure::Cost, per_halt_ns);
        let rounds = self.rounds();
        let measured = rounds
            .iter()
            .map(|round| round.map(|it| figures(it.per_halt_ns)));
        let comparison = Comparison::of(Figure::Cost, &measured.collect::<Vec<_>>())?;
        let share = |of: f64| comparison.share_of_a(of);
        let measured = Interval {
            value: share(comparison.effect.estimate)?,
            low: share(comparison.effect.low)?,
            high: share(comparison.effect.high)?,
        };
        // B as replayed from A.
        let pairs = rounds
            .iter()
            .map(|[a, b, _]| [a.per_halt_ns, a.predicted_per_halt_ns, b.per_halt_ns].map(figures));
        let prediction = Prediction::of(&comparison, &pairs.collect::<Vec<_>>());
        let error = prediction.and_then(|it| share(it.error.estimate));
        let outcome = Outcome { measured, error };
        Some((comparison.verdict(LEAST_GAIN), outcome))
    }
}
