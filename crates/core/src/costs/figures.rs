//! Sums over halts under one setting. All sums are whole numbers, and add up in any order.

use crate::account::sums::folds;
use crate::hist::LogHist;
use crate::replay::Sums;

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

folds! {
    Figures { sums, latency }
}
