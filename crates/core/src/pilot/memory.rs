//! State that the pilot has to know after a restart: settings, what was measured of them, and how far predictions were off.

use std::iter::repeat_n;

use serde::{Deserialize, Serialize};

use super::input::Scope;
use crate::ids::VmKey;
use crate::kvm::Knobs;
use crate::stats::{Interval, percentile_of_sorted};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Memory {
    pub targets: Vec<OfTarget>,
    pub errors: Errors,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfTarget {
    pub scope: Scope,
    pub found: Knobs,
    /// The setting that the pilot has set, or was about to set.
    pub set: Option<Knobs>,
    /// A trial was under way, or a setting was not restored yet: what was in force before.
    pub trial_from: Option<Knobs>,
    #[serde(flatten)]
    pub known: Known,
    /// How long ago it was changed, within the last hour, in nanoseconds.
    pub changed_ago_ns: Vec<u64>,
    pub waits_ns: u64,
    /// Another program has set it since: it is left alone until asked again.
    pub hands_off: bool,
    /// Weight of latency for each of its VMs, in thousandths of CPU: what is known is by these weights.
    #[serde(default)]
    pub goals: Vec<(VmKey, u64)>,
}

/// Measurements of a target, which count for the goals of its VMs alone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Known {
    pub measured: Option<Interval>,
    pub regret: Regret,
    pub failed: u32,
    pub proven: Vec<Proven>,
}

/// A setting that was proven, and for which load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Proven {
    /// Logarithms of the mean gap, and of halts in a second.
    pub load: [f64; 2],
    pub knobs: Knobs,
    pub measured: Interval,
}

/// Settings that are kept of one target.
const PROVEN: usize = 16;

/// Loads that differ by less than this factor, as a logarithm, are alike: a quarter, as much as lies between two
/// ceilings that are looked at.
const ALIKE: f64 = 0.25;

impl Proven {
    pub fn is_for(&self, load: [f64; 2]) -> bool {
        self.load
            .iter()
            .zip(load)
            .all(|(own, load)| (own - load).abs() <= ALIKE)
    }

    /// Adds it; what was known of such a load goes, and the oldest where there are too many.
    pub fn keep(self, proven: &mut Vec<Self>) {
        proven.retain(|other| !other.is_for(self.load));
        proven.push(self);
        if proven.len() > PROVEN {
            proven.remove(0);
        }
    }
}

/// The most that may be lost, as a share of what the setting found would have cost: the
/// bound that docs/pilot.md states.
pub const MOST: f64 = 0.03;

/// Sums in nanoseconds of CPU, with latency by the goal.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Regret {
    pub actual_ns: f64,
    pub found_ns: f64,
    /// The least and the most that it would have been.
    pub found_ends_ns: [f64; 2],
    /// Savings by replay where nothing was set.
    pub would_ns: f64,
    /// The least and the most of that.
    pub would_ends_ns: [f64; 2],
}

impl Regret {
    /// A time in which halts cost so much, and would have cost so many times as much under the setting found; replays are off
    /// by `off_by` of the cost.
    pub fn add(&mut self, cost_ns: f64, found_ratio: &Interval, off_by: f64) {
        self.actual_ns += cost_ns;
        self.found_ns += cost_ns * found_ratio.value;
        let ratio = |end: f64| if end.is_finite() { end.max(0.0) } else { 1.0 };
        self.found_ends_ns[0] += cost_ns * ratio(found_ratio.low - off_by);
        self.found_ends_ns[1] += cost_ns * ratio(found_ratio.high + off_by);
    }

    /// A time in which nothing was set and so much would have been saved.
    pub fn would_save(&mut self, cost_ns: f64, gain: &Interval, off_by: f64) {
        self.would_ns += cost_ns * gain.value;
        let share = |end: f64| if end.is_finite() { end } else { 0.0 };
        self.would_ends_ns[0] += cost_ns * share(gain.low - off_by);
        self.would_ends_ns[1] += cost_ns * share(gain.high + off_by);
    }

    /// Loss, as a share of the cost under the setting found; below 0 is a gain.
    pub fn share(&self) -> f64 {
        if self.found_ns > 0.0 {
            self.actual_ns / self.found_ns - 1.0
        } else {
            0.0
        }
    }

    pub fn allowance_ns(&self) -> f64 {
        self.found_ns * (1.0 + MOST) - self.actual_ns
    }

    pub fn saved_ns(&self) -> Interval {
        Interval {
            value: self.found_ns - self.actual_ns,
            low: self.found_ends_ns[0] - self.actual_ns,
            high: self.found_ends_ns[1] - self.actual_ns,
        }
    }

    /// Savings that were only possible, in nanoseconds.
    pub fn would_saved_ns(&self) -> Interval {
        Interval {
            value: self.would_ns,
            low: self.would_ends_ns[0],
            high: self.would_ends_ns[1],
        }
    }
}

/// Until enough predictions have been measured here, by trials or by `prove`, nine in ten predictions are taken to be off by this at most: of 36
/// recommended ceilings, 34 came within 10 % of the best of a sweep (`docs/predictions.md`).
pub const PRIOR: f64 = 0.1;

/// Number of measured predictions that replace the prior: a 90th percentile of fewer is their largest, or beyond it.
const ENOUGH: usize = 10;

const KEPT: usize = 64;

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
