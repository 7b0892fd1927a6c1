//! Cost of the pilot's settings since the pilot started, against the setting that the pilot found.

use serde::{Deserialize, Serialize};

use crate::stats::Interval;

/// The most that may be lost, as a share of what the setting found would have cost: the
/// bound that docs/pilot.md states.
pub const MOST: f64 = 0.03;

/// Sums in nanoseconds of CPU, with latency by the goal.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Regret {
    pub actual_ns: f64,
    /// As it would have been under the setting found.
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

    /// Loss that is still allowed, in nanoseconds.
    pub fn allowance_ns(&self) -> f64 {
        self.found_ns * (1.0 + MOST) - self.actual_ns
    }

    /// Savings, in nanoseconds.
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
