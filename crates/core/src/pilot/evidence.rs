//! Result of a look at a VM's halts: the cost of the setting in force, of another setting, and of the setting that was
//! found. The engine asks through [`Evidence`], so that a simulation of years needs no halts.

use super::input::Scope;
use crate::kvm::Knobs;
use crate::replay::Cost;
use crate::stats::Interval;

#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub scope: Scope,
    /// In force: the host's parameters, with the VM's own ceiling as `halt_poll_ns` where it is about one.
    pub in_force: Knobs,
    pub found: Knobs,
    /// Weight of latency, in thousandths of CPU.
    pub weight_milli: u64,
    /// The most that polling may take, in % of one CPU.
    pub max_poll_cpu_percent: Option<f64>,
    /// Idle CPU time, in % of one CPU: polling can take no more than the idle time.
    pub idle_cpu_percent: Option<f64>,
    pub max_ceiling_ns: u32,
}

#[derive(Debug)]
pub struct OfVm<'a, C> {
    /// Weight of latency for the VM, in thousandths of CPU.
    pub weight_milli: u64,
    pub vcpus: u64,
    /// Stretches of full facts, oldest first.
    pub chunks: Vec<&'a C>,
    /// Excerpts of its last trial, under both settings: they show what its wake-ups are like under another than the one in
    /// force.
    pub tried: Vec<&'a C>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub cost: Cost,
    /// Cost of a halt as recorded, in nanoseconds of CPU, with latency by the goal.
    pub cost_per_halt_ns: f64,
    pub halts_per_s: f64,
    /// Mean wake-up latency of a halt, in nanoseconds.
    pub latency_mean_ns: f64,
    /// Mean time from a halt until its wake event, in nanoseconds: the load itself, whatever the setting.
    pub gap_mean_ns: f64,
    /// Cost of the setting found, as a multiple of the cost of the setting in force.
    pub found_ratio: Interval,
    /// By how much more is polled than under the setting found, in % of one CPU; below 0 it is less.
    pub more_poll_than_found_percent: f64,
    /// A better setting, if one is certain within the recorded noise.
    pub choice: Option<Choice>,
    /// Why there is none, or what was found, in a word.
    pub verdict: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    pub knobs: Knobs,
    /// By how much less a halt would cost, as a share of what it costs.
    pub gain: Interval,
    /// By how much polling grows, in % of one CPU; below 0 it shrinks.
    pub more_poll_cpu_percent: f64,
    /// The most that it can cost more than what is in force, in nanoseconds of CPU in a second, if all of the
    /// prediction is wrong.
    pub worst_ns_per_s: f64,
}

impl Choice {
    /// Whether it may poll more than this: as predicted, or because its ceiling is higher, whatever the load becomes.
    pub fn polls_more_than(&self, from: Knobs) -> bool {
        self.more_poll_cpu_percent > 0.0 || self.knobs.halt_poll_ns > from.halt_poll_ns
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measured {
    pub halts: u64,
    pub cost_ns: f64,
    /// Cost of a halt; `None` where the time polled was not recorded.
    pub per_halt_ns: Option<f64>,
    /// The same as replayed under the other setting.
    pub predicted_per_halt_ns: Option<f64>,
    /// The time in which they were recorded, which ends early where there are too many; 0 where there were none.
    pub span_ns: u64,
}

impl Measured {
    /// A sum of it in so long, where it was recorded for as long as it says, or for `wanted_ns`.
    pub(super) fn in_ns(&self, sum: f64, ns: f64, wanted_ns: u64) -> f64 {
        let span_ns = if self.span_ns > 0 {
            self.span_ns
        } else {
            wanted_ns
        };
        sum * ns / span_ns.max(1) as f64
    }
}

/// Halts of an excerpt at most, some 30 KB: up to enough sleeps for each of sixteen vCPUs
/// ([`crate::replay::latency::ENOUGH`]).
pub const EXCERPT: usize = 256;

pub trait Evidence {
    type Chunk: std::fmt::Debug;

    /// Learns what a stretch says of the whole host.
    fn learn(&mut self, chunk: &Self::Chunk);

    /// Up to [`EXCERPT`] halts of a stretch, from all of it.
    fn excerpt(chunk: &Self::Chunk) -> Self::Chunk;

    /// How much of the budget of memory a stretch takes.
    fn size(chunk: &Self::Chunk) -> usize;

    /// Result of a look at these halts. `None` if the halts are too few, or the cost of a wake-up is not known.
    fn weigh(&mut self, vms: &[OfVm<'_, Self::Chunk>], question: &Question) -> Option<Answer>;

    /// Result of a period of a trial, and the result that the period would have had under `other`.
    fn measure(
        &mut self,
        vms: &[OfVm<'_, Self::Chunk>],
        other: Knobs,
        cost: &Cost,
    ) -> Option<Measured>;
}
