//! Rounds in a drawn order; A, B and the control, figure by figure, with the verdict; predictions held against them.
//!
//! The blocks under one setting are replayed under the other, round by round. A measured difference lies
//! *within* the prediction if it is inside the interval of the predicted differences, widened on both
//! sides by what A against itself may differ by: no prediction can be held to more than the host can.

use serde::{Deserialize, Serialize};

use super::figure::{Figure, Figures};
use crate::stats::ranks::RankInterval;
use crate::stats::{FEWEST, median_estimate};
use crate::workload::SplitMix64;

/// Divisor of a block: its first tenth, in which the window finds its length, does not count.
pub const WARM_UP_PART: u64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Block {
    A,
    B,
    /// Under A once more: what the host makes of settings that are the same.
    Control,
}

impl Block {
    /// All of them; each round holds each once.
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::Control];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::Control => "A again",
        }
    }

    pub fn is_b(self) -> bool {
        self == Self::B
    }
}

/// The orders of `rounds` rounds: each of the six orders is as likely, and no round depends on another.
pub fn draw(seed: u64, rounds: u32) -> Vec<[Block; 3]> {
    let mut random = SplitMix64(seed);
    let mut order = || {
        let mut blocks = Block::ALL;
        // Fisher and Yates: from the last to the second, swap with one of those not yet placed.
        for last in [2_u64, 1] {
            let chosen = random.below(last + 1);
            let index = |n: u64| usize::try_from(n).unwrap_or(0);
            blocks.swap(index(last), index(chosen));
        }
        blocks
    };
    (0..rounds).map(|_| order()).collect()
}

/// The figures of one round: under A, under B, and under A once more.
pub type Round = [Figures; 3];

/// A figure in the three blocks of each round that has it in all.
struct Whole(Vec<[f64; 3]>);

impl Whole {
    fn of(figure: Figure, rounds: &[[Figures; 3]]) -> Self {
        let in_all =
            |[a, b, c]: &[Figures; 3]| Some([a.get(figure)?, b.get(figure)?, c.get(figure)?]);
        Self(rounds.iter().filter_map(in_all).collect())
    }

    fn median(&self, block: usize) -> Option<f64> {
        let values: Vec<f64> = self.0.iter().map(|blocks| blocks[block]).collect();
        Some(median_estimate(&values)?.median)
    }

    fn difference(&self, one: usize, other: usize) -> Option<RankInterval> {
        let pairs = self.0.iter().map(|blocks| blocks[one] - blocks[other]);
        RankInterval::of(&pairs.collect::<Vec<f64>>())
    }
}

/// One figure over all rounds that have it in every block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub figure: Figure,
    pub a: f64,
    pub b: f64,
    pub control: f64,
    /// B less A.
    pub effect: RankInterval,
    /// Control less A: what the host makes of settings that are the same.
    pub noise: RankInterval,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "says")]
pub enum Verdict {
    /// It costs less than A.
    Better,
    Worse,
    /// No difference was seen; one of this size or more, in the figure's unit, would have been.
    NoDifference {
        /// The largest difference that the interval does not rule out.
        seen_from: f64,
    },
    /// The host was too noisy: A differs from itself by up to so much, in the figure's unit.
    TooNoisy {
        /// The largest difference of A from itself that the control does not rule out.
        noise: f64,
    },
    /// There are too few rounds for any interval of 95 %.
    TooFewRounds {
        needed: usize,
    },
}

impl Verdict {
    /// Whether the experiment could decide. If not, its noise widens every predicted interval so far that
    /// lying within one says nothing of the prediction.
    pub const fn is_conclusive(self) -> bool {
        !matches!(self, Self::TooNoisy { .. } | Self::TooFewRounds { .. })
    }
}

impl Comparison {
    /// Compares a figure. `None` where no round has it in all its blocks.
    pub fn of(figure: Figure, rounds: &[Round]) -> Option<Self> {
        let whole = Whole::of(figure, rounds);
        Some(Self {
            figure,
            a: whole.median(0)?,
            b: whole.median(1)?,
            control: whole.median(2)?,
            effect: whole.difference(1, 0)?,
            noise: whole.difference(2, 0)?,
        })
    }

    /// The verdict on B, for a figure of which less is better. `asked` is the smallest difference that
    /// matters, as a share of A.
    ///
    /// A difference counts if its interval excludes zero and if it is larger than what A against itself
    /// may differ by. Where there is none, it can be said that there is none if the control is quiet
    /// enough to have shown one of the size asked for.
    pub fn verdict(&self, asked: f64) -> Verdict {
        let noise = self.noise.reach();
        if self.effect.rounds < FEWEST {
            return Verdict::TooFewRounds { needed: FEWEST };
        }
        if self.effect.excludes_zero() && self.effect.estimate.abs() > noise {
            return if self.effect.estimate < 0.0 {
                Verdict::Better
            } else {
                Verdict::Worse
            };
        }
        if noise <= asked * self.a.abs() {
            let seen_from = self.effect.reach();
            return Verdict::NoDifference { seen_from };
        }
        Verdict::TooNoisy { noise }
    }

    /// A difference as a share of A. `None` where A is zero.
    pub fn share_of_a(&self, difference: f64) -> Option<f64> {
        (self.a != 0.0).then(|| difference / self.a.abs())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub figure: Figure,
    pub predicted: f64,
    pub measured: f64,
    /// Predicted less measured, round by round.
    pub error: RankInterval,
    /// The predicted difference from the setting that the prediction was made from.
    pub effect: RankInterval,
    pub measured_effect: RankInterval,
    /// Whether the measured difference lies within the predicted interval, widened by the noise.
    pub within: bool,
}

impl Prediction {
    /// Holds a figure's prediction against the measurement. `None` where no round has it. A pair is the replayed block, the
    /// replay, and the block as measured under the predicted setting.
    pub fn of(comparison: &Comparison, pairs: &[Round]) -> Option<Self> {
        let figure = comparison.figure;
        let whole = Whole::of(figure, pairs);
        let effect = whole.difference(1, 0)?;
        let measured_effect = whole.difference(2, 0)?;
        let slack = comparison.noise.reach();
        let bounds = effect.low - slack..=effect.high + slack;
        Some(Self {
            figure,
            predicted: whole.median(1)?,
            measured: whole.median(2)?,
            error: whole.difference(1, 2)?,
            effect,
            measured_effect,
            within: bounds.contains(&measured_effect.estimate),
        })
    }

    /// The error as a share of what was measured. `None` where that is zero.
    pub fn relative_error(&self) -> Option<f64> {
        let apart = self.predicted - self.measured;
        (self.measured != 0.0).then(|| apart / self.measured.abs())
    }
}
