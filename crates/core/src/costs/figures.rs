//! What is summed up of halts under one setting. All of it is whole numbers, and adds up in any order.

use crate::hist::LogHist;
use crate::replay::cost::{Cost, MILLI};
use crate::replay::grid::Tally;

/// The latency of every so many-th halt of a vCPU is in the histogram. A prime: few loads repeat after so many halts.
pub const EVERY: usize = 17;

/// Sums over halts. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Without the histogram.
    pub sums: Sums,
    /// Wake-up latency of every [`EVERY`]-th halt of each vCPU; 0 for those that did not sleep.
    pub latency: LogHist,
}

impl Figures {
    pub fn add(&mut self, other: &Self) {
        self.sums.add(&other.sums);
        self.latency.merge(&other.latency);
    }
}

/// The same without the histogram: all that a cost depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct Sums {
    pub halts: u64,
    /// Halts that slept: two context switches each.
    pub sleeps: u64,
    /// Of them, those that had polled.
    pub failed_polls: u64,
    pub poll_ns: u64,
    pub latency_ns: u64,
    pub halt_ns: u64,
}

impl Sums {
    /// Of a replay.
    pub fn of(tally: &Tally) -> Self {
        Self {
            halts: tally.halts,
            sleeps: tally.blocks,
            failed_polls: tally.failed_polls,
            poll_ns: tally.poll_ns,
            latency_ns: tally.latency_ns,
            halt_ns: tally.halt_ns,
        }
    }

    /// Adds others; a sum ends at the largest number, since tables may come from anywhere.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.halts = self.halts.saturating_add(other.halts);
        self.sleeps = self.sleeps.saturating_add(other.sleeps);
        self.failed_polls = self.failed_polls.saturating_add(other.failed_polls);
        self.poll_ns = self.poll_ns.saturating_add(other.poll_ns);
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
        self.halt_ns = self.halt_ns.saturating_add(other.halt_ns);
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            halts: self.halts - earlier.halts,
            sleeps: self.sleeps - earlier.sleeps,
            failed_polls: self.failed_polls - earlier.failed_polls,
            poll_ns: self.poll_ns.saturating_sub(earlier.poll_ns),
            latency_ns: self.latency_ns.saturating_sub(earlier.latency_ns),
            halt_ns: self.halt_ns.saturating_sub(earlier.halt_ns),
        }
    }

    /// CPU time of polling and switching, in nanoseconds.
    pub fn cpu_ns(&self, switch_cpu_ns: u64) -> u64 {
        let cost = Cost {
            switch_cpu_ns,
            ..Cost::FREE
        };
        let milli = cost.milli(self.poll_ns, self.sleeps, 0) / u128::from(MILLI);
        u64::try_from(milli).unwrap_or(u64::MAX)
    }

    /// What they cost, in thousandths of a nanosecond of CPU.
    pub fn milli(&self, cost: &Cost) -> u128 {
        cost.milli(self.poll_ns, self.sleeps, self.latency_ns)
    }
}
