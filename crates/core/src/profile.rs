//! Hot spots: samples of the threads of VMMs, and what they add up to.
//!
//! A recorder hands over [`Sample`]s with the stacks, symbols and threads that they point to
//! ([`Rows`]). [`account`] adds up equal samples; everything else is computed from that sum.

pub mod account;
pub mod area;
pub mod sample;
pub mod tree;

use serde::{Deserialize, Serialize};

pub use sample::{Event, Frame, Hit, Phase, Sample, Space, Stack, Thread};

/// Rows of samples from a recorder, in the order in which the rows must be written: a row comes after
/// the rows to which it points.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows {
    pub frames: Vec<Frame>,
    pub stacks: Vec<Stack>,
    pub threads: Vec<Thread>,
    pub samples: Vec<Sample>,
}

/// How samples were recorded: part of a capture that holds them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// Samples a second that were asked for, of each CPU that is busy.
    pub hz: u32,
    /// Sampled events; the others stand beside the first: the CPU clock, or cycles.
    pub events: Vec<Event>,
    /// Whether the exit being handled was told with each sample of a vCPU.
    #[serde(default)]
    pub exits_told: bool,
}

#[cfg(test)]
mod test;
