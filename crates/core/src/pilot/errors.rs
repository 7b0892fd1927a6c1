//! How far predictions were off: predicted less measured change of the cost of a halt, as a share of that cost.

use std::iter::repeat_n;

use serde::{Deserialize, Serialize};

use crate::stats::percentile_of_sorted;

/// Until enough predictions have been measured here, by trials or by `prove`, nine in ten predictions are taken to be off by this at most: of 36
/// recommended ceilings, 34 came within 10 % of the best of a sweep (`docs/predictions.md`).
pub const PRIOR: f64 = 0.1;

/// Number of measured predictions that replace the prior: a 90th percentile of fewer is their largest, or beyond it.
const ENOUGH: usize = 10;

const KEPT: usize = 64;

/// Errors of predictions, as shares.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Errors(Vec<f64>);

impl Extend<f64> for Errors {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, errors: I) {
        let finite = errors.into_iter().filter(|error| error.is_finite());
        self.0.extend(finite.map(f64::abs));
        self.0.drain(..self.0.len().saturating_sub(KEPT));
    }
}

impl Errors {
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// These and later ones: where they are too many, the earliest go.
    #[must_use]
    pub fn and(&self, later: &Self) -> Self {
        let mut all = self.clone();
        all.extend(later.0.iter().copied());
        all
    }

    /// At most so many of them are so large.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        percentile_of_sorted(&sorted, share)
    }

    /// Margin that a predicted gain has to exceed: nine in ten predictions were off by at most this. Those that are
    /// missing from `ENOUGH` are taken to be off by the prior: one bad prediction of the first two is not nine in ten.
    pub fn margin(&self) -> f64 {
        let missing = ENOUGH.saturating_sub(self.count());
        let mut all = self.clone();
        all.extend(repeat_n(PRIOR, missing));
        let of_all = all.percentile(0.9).unwrap_or(PRIOR);
        if missing > 0 {
            of_all.max(PRIOR)
        } else {
            of_all
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn errors(error: f64, count: usize) -> Errors {
        let mut errors = Errors::default();
        errors.extend(repeat_n(error, count));
        errors
    }

    #[test]
    fn ten_measured_predictions_replace_the_prior_whoever_measured_them() {
        let none = Errors::default();
        assert!((none.margin() - PRIOR).abs() < 1e-9);
        // Fewer, or worse ones, make it no smaller.
        assert!((errors(0.01, 9).margin() - PRIOR).abs() < 1e-9);
        assert!((errors(0.3, 2).margin() - 0.3).abs() < 1e-9);
        // One of the first two says little of nine in ten.
        let one = errors(0.3, 1).and(&errors(0.05, 1)).margin();
        assert!((one - PRIOR).abs() < 1e-9, "{one}");
        let proofs = errors(-0.01, 6);
        let both = proofs.and(&errors(0.02, 4));
        assert_eq!(both.count(), 10);
        assert!((both.margin() - 0.02).abs() < 1e-9, "{both:?}");
        // Trials displace what proofs measured before.
        let late = errors(0.3, KEPT).and(&errors(0.02, KEPT));
        assert_eq!(late.count(), KEPT);
        assert!((late.margin() - 0.02).abs() < 1e-9);
        assert_eq!(errors(f64::NAN, 3), none, "what is no number is none");
    }
}
