//! The halts of a capture, vCPU by vCPU, cut into the part that fits and the parts that judge.
//!
//! All of it lies in memory, 32 bytes for each halt. [`super::gather`] puts it there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::guest::Governor;
use super::wall::Wall;
use crate::event::Halt;
use crate::ids::VmIndex;
use crate::kvm::{Arch, Knobs, Rule, Version};
use crate::replay::Sums;
use crate::replay::arrivals::{Follow, SeenWakes};
use crate::replay::latency::{Latencies, Table};
use crate::replay::{Arrivals, Cost, Sample, VcpuKey};
use crate::stats::total;

/// Conditions that hold for a whole search.
#[derive(Debug, Clone)]
pub struct Terms {
    pub version: Version,
    pub arch: Arch,
    pub in_force: Knobs,
    /// Whether waking earlier makes the next gap longer.
    pub arrivals: Arrivals,
    /// Wake-up latencies measured another time, for lengths of sleep that the capture lacks.
    pub elsewhere: Option<Latencies>,
    pub seed: u64,
    /// Only the ceiling is sought, as a VM's own cap sets it; the other parameters stay as they are, and
    /// a VM's own ceiling is taken for one that can be moved.
    pub ceiling_only: bool,
    /// Weight of latency for VMs with a goal of their own, in thousandths of CPU.
    pub weights_milli: BTreeMap<VmIndex, u64>,
    pub governor: Governor,
}

impl Terms {
    /// Terms of a host without calibration, whose VMs have the same goal.
    pub fn new(version: Version, arch: Arch, in_force: Knobs) -> Self {
        Self {
            version,
            arch,
            in_force,
            arrivals: Arrivals::default(),
            elsewhere: None,
            seed: 0,
            ceiling_only: false,
            weights_milli: BTreeMap::new(),
            governor: Governor::default(),
        }
    }

    pub fn rule(&self) -> Rule {
        Rule::of(self.version, self.arch)
    }

    pub fn default_knobs(&self) -> Knobs {
        Knobs::defaults(self.version, self.arch)
    }
}

/// Into how many blocks of equal time the validation half is cut: enough for an interval, few enough that
/// a block is longer than what one halt does to the next.
pub const BLOCKS: usize = 50;

/// Batches of vCPUs at most: enough for all threads to end at about one time.
const BATCHES: usize = 256;

#[derive(Debug)]
pub struct VcpuInput {
    pub seat: VcpuKey,
    pub samples: Vec<Sample>,
    pub table: Arc<Table>,
    /// How far its gaps follow its wake-ups.
    pub follow: Follow,
    /// The ceiling that was in force at its first halt, in nanoseconds.
    pub ceiling_ns: u32,
    /// A ceiling of its VM's own, which no module parameter reaches.
    pub own_ceiling_ns: Option<u32>,
    /// Weight of latency for the vCPU's VM, if the VM has a goal of its own.
    pub weight_milli: Option<u64>,
    /// For how many halts each of its halts stands, in thousandths ([`Inputs::stand_for`]).
    pub stands_for_milli: u64,
    /// The window of its first halt, where that was recorded: of a CPU of a guest, its limit.
    pub first_window_ns: Option<u32>,
    pub recorded: Recorded,
    /// Recorded poll of each halt, where [`super::Gather::with_recorded`] has kept the polls; else empty.
    pub polls: Vec<RecordedPoll>,
}

/// Recorded data of a halt beside the data that a replay takes, in compact form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedPoll(u32);

impl RecordedPoll {
    /// Longer polls are none: it is 2 s.
    const LONGEST: u32 = u32::MAX >> 1;

    /// Recorded poll of a halt; a poll that was not recorded counts as none.
    pub fn of(halt: &Halt) -> Self {
        let poll_ns = u32::try_from(halt.poll_ns.unwrap_or(0)).unwrap_or(u32::MAX);
        Self(poll_ns.min(Self::LONGEST) | (u32::from(halt.waited) << 31))
    }

    pub fn waited(self) -> bool {
        self.0 > Self::LONGEST
    }

    pub fn poll_ns(self) -> u64 {
        u64::from(self.0 & Self::LONGEST)
    }
}

/// Recorded data of a vCPU that a search asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recorded {
    pub blocks: u64,
    /// Time polled, in nanoseconds; time that was not recorded counts as none.
    pub poll_ns: u64,
    pub wakes: SeenWakes,
}

impl Recorded {
    pub(super) fn halt(&mut self, halt: &Halt) {
        self.blocks += u64::from(halt.waited);
        self.poll_ns = self.poll_ns.saturating_add(halt.poll_ns.unwrap_or(0));
        self.wakes.add(halt.wake);
    }
}

impl VcpuInput {
    /// Cost of the vCPU's halts, where other halts cost `of_all`.
    pub(super) fn cost(&self, of_all: &Cost) -> Cost {
        Cost {
            latency_weight_milli: self.weight_milli.unwrap_or(of_all.latency_weight_milli),
            ..*of_all
        }
    }

    /// How many of its halts began before this.
    pub(super) fn end(&self, end_ns: u64) -> usize {
        (self.samples).partition_point(|sample| sample.start_ns < end_ns)
    }
}

#[derive(Debug)]
pub struct Inputs {
    pub terms: Terms,
    pub seats: Vec<VcpuInput>,
    /// When the parts end: first the part that fits, then the blocks.
    pub ends_ns: Vec<u64>,
    pub fit_wall: Wall,
    pub judged_wall: Wall,
    /// Halts that began before an earlier one of their vCPU, and were left out.
    pub out_of_order: u64,
    /// Halts of stretches that were left out, because there were too many.
    pub skipped: u64,
}

impl Inputs {
    /// Takes the ceiling of all vCPUs for the one in force, where only the ceiling is tuned and they have the same.
    pub fn take_own_ceiling(&mut self) {
        let mut ceilings = self.seats.iter().map(|seated| seated.ceiling_ns);
        if let Some(first_ns) = ceilings.next().filter(|_| self.terms.ceiling_only)
            && ceilings.all(|ns| ns == first_ns)
        {
            self.terms.in_force.halt_poll_ns = first_ns;
        }
    }

    /// Where the parts of a vCPU's halts end, as places among them.
    pub(super) fn ends(&self, seated: &VcpuInput) -> Vec<usize> {
        let mut ends: Vec<usize> = (self.ends_ns.iter()).map(|ns| seated.end(*ns)).collect();
        if let Some(last) = ends.last_mut() {
            *last = seated.samples.len();
        }
        ends
    }

    /// Has each halt of a vCPU stand for several, `milli` thousandths of them, where it was recorded for a shorter time than
    /// others: all parts then hold as much as if all had been recorded for as long.
    pub fn stand_for(&mut self, milli: impl Fn(VcpuKey) -> u64) {
        for seated in &mut self.seats {
            let milli = milli(seated.seat);
            let fit = self.ends_ns.first().map_or(0, |ns| seated.end(*ns));
            let (fit, judged) = seated.samples.split_at(fit);
            for (wall, samples) in [&mut self.fit_wall, &mut self.judged_wall]
                .into_iter()
                .zip([fit, judged])
            {
                let halt_ns = total(samples.iter().map(Sample::halt_ns));
                let more_ns = Sums::scaled(halt_ns, milli).saturating_sub(halt_ns);
                wall.halt_ns = wall.halt_ns.saturating_add(more_ns);
            }
            let recorded = &mut seated.recorded;
            recorded.blocks = Sums::scaled(recorded.blocks, milli);
            recorded.poll_ns = Sums::scaled(recorded.poll_ns, milli);
            seated.stands_for_milli = milli;
        }
    }

    /// The halts of a vCPU that fit, and those that judge.
    pub(crate) fn halves<'a>(&self, seated: &'a VcpuInput) -> (&'a [Sample], &'a [Sample]) {
        let fit = self.ends_ns.first().map_or(0, |ns| seated.end(*ns));
        seated.samples.split_at(fit)
    }

    /// vCPUs whose results are added up where they are worked out, so that memory does not grow with their number.
    pub(super) fn batches(&self) -> impl Iterator<Item = &[VcpuInput]> {
        self.seats.chunks(self.seats.len().div_ceil(BATCHES).max(1))
    }

    /// Polling as recorded, in % of one CPU; time that was not recorded counts as none.
    pub fn recorded_poll_cpu_percent(&self) -> f64 {
        let polled_ns = total(self.seats.iter().map(|seated| seated.recorded.poll_ns));
        let span_ns = self
            .fit_wall
            .span_ns
            .saturating_add(self.judged_wall.span_ns);
        100.0 * polled_ns as f64 / span_ns.max(1) as f64
    }

    /// Halts of the validation half whose poll another task preempted.
    pub fn judged_preempted_polls(&self) -> u64 {
        let judged = self.seats.iter().flat_map(|seated| self.halves(seated).1);
        judged.filter(|it| it.cut_ns() != u64::MAX).count() as u64
    }

    pub fn halts(&self) -> u64 {
        let lengths = self.seats.iter().map(|seated| seated.samples.len() as u64);
        lengths.sum()
    }
}
