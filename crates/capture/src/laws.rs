//! Laws that every row of a capture obeys, whatever host and source the row came from.
//!
//! A row that breaks a law is no fact: it is left out when its table is read, and counted. The laws hold
//! for what recorders write, with allowances for what they cannot know exactly; a capture that breaks one
//! was damaged or made up. Each row is looked at once, and what is remembered is as large as there are vCPUs.
//!
//! Not here: what a row means, and whether the bytes of a file are those that were written.

mod halts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use haltwise_core::event::{HostSample, IdleState, WindowChange};
use haltwise_core::exit::Exits;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::profile::Sample;
use haltwise_core::recording::Rung;

use crate::info::CaptureInfo;
use crate::table::Table;

/// By how much a time may lie before the beginning of a recording or after its end. Recorders used to note
/// the beginning when halts had been recorded for a while, and counters are read one after the other.
const ALLOWANCE_NS: u64 = 60_000_000_000;

/// Cycles, instructions and the like of one CPU, far above what any has.
const MOST_EVENTS_PER_NS: u64 = 100;

/// The thread that halts, and its vCPU where that is known. Of several VMs of one process older recorders gave by
/// tracepoints the thread that halted, and all of their vCPUs as those of the first VM.
type Halting = (Option<VmIndex>, Option<VcpuId>, Tid);

/// vCPUs that are distinguished; far more than any host has.
const MOST_VCPUS: usize = 1 << 20;

haltwise_core::names! {
    /// A law that a row breaks.
    #[non_exhaustive]
    pub enum Law {
        WithinRecording = "its time is outside the recording",
        VmKnown = "its VM is not in the roster",
        PollWithinHalt = "poll_ns exceeds halt_ns",
        LatencyWithinHalt = "wake_latency_ns exceeds halt_ns by more than a minute",
        NoOverlap = "it overlaps another halt of the same vCPU",
        PartsWithinWhole = "a part exceeds its whole",
        /// Times that were counted since an earlier moment are not longer than it has been since.
        TimeHasPassed = "it counts more time than has passed",
    }
}

/// How many rows were left out of what has been read of a capture, shared by all its readers.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeftOut(Arc<Mutex<BTreeMap<(Table, Law), u64>>>);

impl LeftOut {
    /// Counts `rows` rows in one reading of a table, from its beginning. Several readings count as the longest.
    fn at_least(&self, table: Table, law: Law, rows: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry((table, law)).or_default();
        *known = rows.max(*known);
    }

    pub(crate) fn all(&self) -> BTreeMap<(Table, Law), u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }
}

#[derive(Debug)]
pub(crate) struct Laws {
    from_ns: u64,
    to_ns: u64,
    /// `None` where the capture names no VM at all.
    vms: Option<BTreeSet<VmIndex>>,
    /// Halts of one vCPU cannot overlap: each was timed by one clock.
    one_clock: bool,
    halts: halts::LatestHalts,
    /// Since when each vCPU's halts are counted: the beginning of the latest interval in which it halted.
    counted_since: BTreeMap<Halting, u64>,
    broken: BTreeMap<Law, u64>,
    left_out: LeftOut,
}

impl Laws {
    /// The laws of a capture, whose last moment is known for certain or not.
    pub(crate) fn new(info: &CaptureInfo, last_ns: Option<u64>, left_out: LeftOut) -> Self {
        let start_ns = info.clock.start_monotonic_ns;
        let (mut from_ns, mut to_ns) = (start_ns.saturating_sub(ALLOWANCE_NS), u64::MAX);
        if let Some(last_ns) = last_ns {
            to_ns = last_ns.saturating_add(ALLOWANCE_NS);
            if last_ns < start_ns {
                // It cannot be told which of the two is wrong.
                (from_ns, to_ns) = (0, u64::MAX);
            }
        }
        let vms = &info.roster.vms;
        Self {
            from_ns,
            to_ns,
            vms: (!vms.is_empty()).then(|| vms.iter().map(|vm| vm.index).collect()),
            // An imported capture has the tracer's clock, which may differ from CPU to CPU, prints microseconds
            // and is not the one by which KVM measures.
            one_clock: info.rung != Rung::Import,
            halts: halts::LatestHalts::default(),
            counted_since: BTreeMap::new(),
            broken: BTreeMap::new(),
            left_out,
        }
    }

    fn holds(&self, time_ns: u64) -> Result<(), Law> {
        let within = (self.from_ns..=self.to_ns).contains(&time_ns);
        within.then_some(()).ok_or(Law::WithinRecording)
    }

    fn knows(&self, vm: Option<VmIndex>) -> Result<(), Law> {
        let (Some(vm), Some(vms)) = (vm, &self.vms) else {
            return Ok(());
        };
        vms.contains(&vm).then_some(()).ok_or(Law::VmKnown)
    }

    fn breaks(&mut self, law: Law) {
        let rows = self.broken.entry(law).or_default();
        *rows += 1;
    }

    /// Those that obey, of rows that each stand for themselves.
    pub(crate) fn each<T>(
        &mut self,
        mut rows: Vec<T>,
        judge: impl Fn(&mut Self, &T) -> Result<(), Law>,
    ) -> Vec<T> {
        rows.retain(|row| match judge(self, row) {
            Ok(()) => true,
            Err(law) => {
                self.breaks(law);
                false
            }
        });
        rows
    }

    pub(crate) fn tell(&self, table: Table) {
        for (law, rows) in &self.broken {
            self.left_out.at_least(table, *law, *rows);
        }
    }

    pub(crate) fn window_change(&mut self, row: &WindowChange) -> Result<(), Law> {
        self.holds(row.time_ns)?;
        self.knows(row.vm)
    }

    /// An exit is counted when it happens and timed when the guest goes on, so that an interval may hold a
    /// time without its exit, of one that began long before.
    pub(crate) fn exits(&mut self, row: &Exits) -> Result<(), Law> {
        self.holds(row.time_ns)?;
        self.knows(row.vm)?;
        let times = [row.interval_ns, row.user_ns, row.handling_ns.sum()];
        let passed = times.iter().all(|ns| *ns <= row.time_ns);
        passed.then_some(()).ok_or(Law::TimeHasPassed)
    }

    pub(crate) fn sample(&mut self, row: &Sample) -> Result<(), Law> {
        self.holds(row.time_ns)?;
        self.knows(row.vm)?;
        let passed = row.weight <= row.time_ns.saturating_mul(MOST_EVENTS_PER_NS);
        passed.then_some(()).ok_or(Law::TimeHasPassed)
    }

    pub(crate) fn idle_state(&mut self, row: &IdleState) -> Result<(), Law> {
        self.holds(row.time_ns)
    }

    pub(crate) fn host_sample(&mut self, row: &HostSample) -> Result<(), Law> {
        self.holds(row.time_ns)?;
        let steal_ns = row.steal_ns.unwrap_or(0);
        let whole = row.busy_ns <= row.total_ns && steal_ns <= row.busy_ns;
        whole.then_some(()).ok_or(Law::PartsWithinWhole)
    }
}

#[cfg(test)]
mod test;
