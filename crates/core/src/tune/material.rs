//! The halts of a capture, vCPU by vCPU, cut into the part that fits and the parts that judge.
//!
//! All of it lies in memory, 64 bytes for each halt. [`super::gather`] puts it there.

use super::candidates::Moves;
use super::sums::Wall;
use crate::kvm::{Arch, Knobs, Rule, Version};
use crate::replay::arrivals::Follow;
use crate::replay::latency::{Latencies, Table};
use crate::replay::{Arrivals, Outcome, Sample, Seat};
use crate::stats::total;

/// What holds for all of a search.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The kernel whose parameters are sought.
    pub version: Version,
    /// Its port.
    pub arch: Arch,
    /// The parameters in force when recorded.
    pub in_force: Knobs,
    /// Whether waking earlier makes the next gap longer.
    pub arrivals: Arrivals,
    /// Wake-up latencies measured another time, for lengths of sleep that the capture lacks.
    pub elsewhere: Option<Latencies>,
    /// Seed of policies that draw, and of the bootstrap.
    pub seed: u64,
    /// Only the ceiling is sought, as a VM's own cap sets it; the other parameters stay as they are, and
    /// a VM's own ceiling is taken for one that can be moved.
    pub ceiling_only: bool,
}

impl Terms {
    /// The rule of that kernel.
    pub fn rule(&self) -> Rule {
        Rule::of(self.version, self.arch)
    }

    /// Which parameters may move.
    pub fn moves(&self) -> Moves {
        if self.ceiling_only {
            Moves::Ceiling
        } else {
            Moves::All
        }
    }

    /// What the parameters are there when nobody sets them.
    pub fn default_knobs(&self) -> Knobs {
        Knobs::defaults(self.version, self.arch)
    }
}

/// Into how many blocks of equal time the validation half is cut: enough for an interval, few enough that
/// a block is longer than what one halt does to the next.
pub const BLOCKS: usize = 50;

/// One vCPU.
#[derive(Debug)]
pub struct Seated {
    /// Which.
    pub seat: Seat,
    /// Its halts, in order.
    pub samples: Vec<Sample>,
    /// Its wake-up latencies.
    pub table: Table,
    /// How far its gaps follow its wake-ups.
    pub follow: Follow,
    /// The ceiling that was in force at its first halt, in nanoseconds.
    pub ceiling_ns: u32,
    /// A ceiling of its VM's own, which no module parameter reaches.
    pub own_ceiling_ns: Option<u32>,
    /// What was recorded.
    pub recorded: Outcome,
    /// Where the parts end, as places in `samples`: first the part that fits, then the blocks.
    pub ends: Vec<usize>,
}

impl Seated {
    /// The ceiling under a module parameter, in nanoseconds.
    pub fn ceiling_under(&self, param_halt_poll_ns: u32) -> u32 {
        self.own_ceiling_ns.unwrap_or(param_halt_poll_ns)
    }
}

/// All halts of a search.
#[derive(Debug)]
pub struct Material {
    /// What holds for all of it.
    pub terms: Terms,
    /// vCPU by vCPU.
    pub seats: Vec<Seated>,
    /// The time of the part that fits.
    pub fit_wall: Wall,
    /// The time of the validation half.
    pub judged_wall: Wall,
    /// Halts that began before an earlier one of their vCPU, and were left out.
    pub out_of_order: u64,
    /// Halts of stretches that were left out, because there were too many.
    pub skipped: u64,
}

impl Material {
    /// Polling as recorded, in % of one CPU; what nobody recorded counts as none.
    pub fn recorded_poll_cpu_percent(&self) -> f64 {
        let polled_ns = total(self.seats.iter().map(|seated| seated.recorded.poll_ns));
        let span_ns = self
            .fit_wall
            .span_ns
            .saturating_add(self.judged_wall.span_ns);
        100.0 * polled_ns as f64 / span_ns.max(1) as f64
    }

    /// Halts that are here.
    pub fn halts(&self) -> u64 {
        let lengths = self.seats.iter().map(|seated| seated.samples.len() as u64);
        lengths.sum()
    }
}
