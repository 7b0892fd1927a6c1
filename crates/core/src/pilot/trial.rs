//! A setting tried in drawn periods, as `prove` does: on one target, with rounds of three periods each, one under the
//! setting tried and two under the one before.

use super::evidence::{Choice, Measured};
use super::view::OUTSIDE_EARLY;
use crate::kvm::Knobs;
use crate::prove::compare::{Comparison, Verdict};
use crate::prove::figure::{Figure, Figures};
use crate::prove::predict::Prediction;
use crate::prove::schedule::{Block, draw};
use crate::replay::Cost;
use crate::stats::FEWEST;
use crate::stats::Interval;
use crate::tune::advice::LEAST_GAIN;

/// Rounds after which the first look is taken, and after which there is no more. Two looks of 95 % make one of 91 % at
/// the least; what is kept is looked at for as long as it is kept.
const LOOKS: [usize; 2] = [FEWEST, 2 * FEWEST];

/// Divisor of a period: its first tenth, in which the window finds its length, does not count, as in `prove`.
const WARM_UP_PART: u64 = 10;

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
    orders: Vec<[Block; 3]>,
    rounds: Vec<[Option<Measured>; 3]>,
    at: usize,
    /// Halts per second of the load that the trial began with.
    halts_per_s: f64,
    /// Halts under the setting before, so far, and what they cost in nanoseconds.
    before: (u64, f64),
    /// Periods in a row under the setting before that had another load than the trial began with.
    unlike: u32,
    /// CPU pressure when it began, where that was known.
    pub(super) pressure: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Next {
    Period,
    Changed,
    Keep(Outcome),
    /// It does not, and why.
    Back(Option<Outcome>, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    /// Change of the cost of a halt, as a share.
    pub(super) measured: Interval,
    /// Predicted less measured change, as a share, where something was predicted.
    pub(super) error: Option<f64>,
}

impl Trial {
    pub(super) fn new(
        from: Knobs,
        choice: Choice,
        cost: Cost,
        halts_per_s: f64,
        pressure: Option<f64>,
        seed: u64,
    ) -> Self {
        Self {
            from,
            choice,
            cost,
            length_ns: length_ns(halts_per_s),
            orders: draw(seed, ROUNDS),
            rounds: Vec::new(),
            at: 0,
            halts_per_s,
            before: (0, 0.0),
            unlike: 0,
            pressure,
        }
    }

    pub(super) fn block(&self) -> Option<Block> {
        let places = Block::ALL.len();
        self.orders
            .get(self.at / places)
            .map(|order| order[self.at % places])
    }

    pub(super) fn wanted(&self) -> Knobs {
        match self.block() {
            Some(Block::B) => self.choice.knobs,
            _ => self.from,
        }
    }

    /// The one that it does not.
    pub(super) fn other(&self) -> Knobs {
        match self.block() {
            Some(Block::B) => self.from,
            _ => self.choice.knobs,
        }
    }

    /// Mean cost of a halt under the setting before, so far, in nanoseconds.
    pub(super) fn before_per_halt_ns(&self) -> Option<f64> {
        let (halts, cost_ns) = self.before;
        (halts > 0).then(|| cost_ns / halts as f64)
    }

    /// The part of each period that does not count, and the one that does.
    pub(super) fn parts_ns(&self) -> [u64; 2] {
        let skip_ns = self.length_ns / WARM_UP_PART;
        [skip_ns, self.length_ns - skip_ns]
    }

    /// Takes in a period under the setting before.
    fn take_before(&mut self, measured: &Measured) {
        let [_, recorded_ns] = self.parts_ns();
        let per_s = measured.in_ns(measured.halts as f64, 1e9, recorded_ns);
        // One halt in a second more or less is no other load.
        let ratio = (per_s + 1.0) / (self.halts_per_s + 1.0);
        let is_unlike = ratio.ln().abs() > OUTSIDE_EARLY;
        self.unlike = if is_unlike { self.unlike + 1 } else { 0 };
        let (halts, cost_ns) = self.before;
        self.before = (halts + measured.halts, cost_ns + measured.cost_ns);
    }

    pub(super) fn take(&mut self, measured: &Measured) -> Next {
        let Some(block) = self.block() else {
            return self.look();
        };
        if self.at.is_multiple_of(Block::ALL.len()) {
            self.rounds.push([None; 3]);
        }
        if let Some(round) = self.rounds.last_mut() {
            round[block as usize] = Some(*measured);
        }
        self.at += 1;
        if !block.is_b() {
            self.take_before(measured);
        }
        if self.unlike >= 2 {
            // The trial's measurements say nothing of the load that the trial began with.
            return Next::Changed;
        }
        if self.at.is_multiple_of(Block::ALL.len()) && LOOKS.contains(&self.rounds.len()) {
            return self.look();
        }
        Next::Period
    }

    fn look(&self) -> Next {
        let Some((verdict, outcome)) = self.outcome() else {
            return Next::Back(None, "the periods held no halts");
        };
        match verdict {
            Verdict::Better => Next::Keep(outcome),
            Verdict::Worse => Next::Back(Some(outcome), "it costs more"),
            _ if self.rounds.len() < LOOKS[1] => Next::Period,
            Verdict::NoDifference { .. } => Next::Back(Some(outcome), "no difference was measured"),
            _ => Next::Back(Some(outcome), "the host was too noisy to measure the gain"),
        }
    }

    fn outcome(&self) -> Option<(Verdict, Outcome)> {
        let figures = |per_halt_ns| Figures::default().with(Figure::Cost, per_halt_ns);
        let per_halt = |measured: Option<Measured>| figures(measured.and_then(|it| it.per_halt_ns));
        let rounds = self.rounds.iter().map(|round| round.map(per_halt));
        let comparison = Comparison::of(Figure::Cost, &rounds.collect::<Vec<_>>())?;
        let share = |of: f64| comparison.share_of_a(of);
        let measured = Interval {
            value: share(comparison.effect.estimate)?,
            low: share(comparison.effect.low)?,
            high: share(comparison.effect.high)?,
        };
        // B as replayed from A.
        let pairs = self.rounds.iter().filter_map(|[a, b, _]| {
            let (a, b) = (a.as_ref()?, b.as_ref()?);
            Some([a.per_halt_ns, a.predicted_per_halt_ns, b.per_halt_ns].map(figures))
        });
        let prediction = Prediction::of(&comparison, &pairs.collect::<Vec<_>>());
        let error = prediction.and_then(|it| share(it.error.estimate));
        let outcome = Outcome { measured, error };
        Some((comparison.verdict(LEAST_GAIN), outcome))
    }
}
