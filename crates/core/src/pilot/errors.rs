//! How far predictions were off: predicted less measured change of the cost of a halt, as a share of that cost.

use serde::{Deserialize, Serialize};

use crate::stats::percentile_of_sorted;

/// Until enough trials have been measured here, nine in ten predictions are taken to be off by this at most: of 36
/// recommended ceilings, 34 came within 10 % of the best of a sweep (`docs/predictions.md`).
pub const PRIOR: f64 = 0.1;

/// So many trials replace the prior: a 90th percentile of fewer is their largest, or beyond it.
const ENOUGH: usize = 10;

/// Trials that are kept.
const KEPT: usize = 64;

/// Errors of predictions, as shares.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Errors(Vec<f64>);

impl Errors {
    /// Adds one.
    pub fn add(&mut self, error: f64) {
        if error.is_finite() {
            self.0.push(error.abs());
        }
        if self.0.len() > KEPT {
            self.0.remove(0);
        }
    }

    /// How many there are.
    pub fn trials(&self) -> usize {
        self.0.len()
    }

    /// At most so many of them are so large.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        percentile_of_sorted(&sorted, share)
    }

    /// What a predicted gain has to exceed: nine in ten predictions were off by at most this.
    pub fn margin(&self) -> f64 {
        let own = self.percentile(0.9).unwrap_or(0.0);
        if self.trials() < ENOUGH {
            own.max(PRIOR)
        } else {
            own
        }
    }
}
