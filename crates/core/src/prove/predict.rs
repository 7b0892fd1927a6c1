//! Comparison of a replay's predictions with measurements.
//!
//! The blocks under one setting are replayed under the other, round by round. A measured difference lies
//! *within* the prediction if it is inside the interval of the predicted differences, widened on both
//! sides by what A against itself may differ by: no prediction can be held to more than the host can.

use serde::{Deserialize, Serialize};

use super::compare::{Comparison, Round, Whole};
use super::figure::Figure;
use crate::stats::ranks::RankInterval;

/// One figure, predicted and measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub figure: Figure,
    /// Median of what was predicted.
    pub predicted: f64,
    /// Median of what was measured.
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
