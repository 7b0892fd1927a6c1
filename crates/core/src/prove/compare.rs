//! A, B and the control, figure by figure, and the verdict.

use serde::{Deserialize, Serialize};

use super::figure::{Figure, Figures};
use crate::stats::ranks::RankInterval;
use crate::stats::{FEWEST, median_estimate};

/// The figures of one round: under A, under B, and under A once more.
pub type Round = [Figures; 3];

/// A figure in the three blocks of each round that has it in all.
pub(super) struct Whole(Vec<[f64; 3]>);

impl Whole {
    pub(super) fn of(figure: Figure, rounds: &[[Figures; 3]]) -> Self {
        let in_all =
            |[a, b, c]: &[Figures; 3]| Some([a.get(figure)?, b.get(figure)?, c.get(figure)?]);
        Self(rounds.iter().filter_map(in_all).collect())
    }

    pub(super) fn median(&self, block: usize) -> Option<f64> {
        let values: Vec<f64> = self.0.iter().map(|blocks| blocks[block]).collect();
        Some(median_estimate(&values)?.median)
    }

    /// The figure in one block minus that in another.
    pub(super) fn difference(&self, one: usize, other: usize) -> Option<RankInterval> {
        let pairs = self.0.iter().map(|blocks| blocks[one] - blocks[other]);
        RankInterval::of(&pairs.collect::<Vec<f64>>())
    }
}

/// One figure over all rounds that have it in every block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub figure: Figure,
    /// Median of the blocks under A.
    pub a: f64,
    /// Median of the blocks under B.
    pub b: f64,
    /// Median of the control blocks.
    pub control: f64,
    /// B less A.
    pub effect: RankInterval,
    /// Control less A: what the host makes of settings that are the same.
    pub noise: RankInterval,
}

/// Result of the experiment for B.
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
        /// Rounds that would be needed.
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
