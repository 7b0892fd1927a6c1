//! What is summed up of halts under one setting. All of it is whole numbers, and adds up in any order.

use crate::hist::LogHist;
use crate::replay::Sums;
use crate::stats::Fold;

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

impl Fold for Figures {
    fn fold(&mut self, other: &Self) {
        self.sums.fold(&other.sums);
        self.latency.merge(&other.latency);
    }
}
