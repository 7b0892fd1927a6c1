//! The ring of one CPU, and the events of KVM and the scheduler that write to it.

use std::io;

use haltwise_core::decode::What;
use haltwise_core::ids::{Pid, Tid};
use perf_event::Counter;

use super::buffer::{Buffer, Given};
use super::events::{Events, Filter, Seen, SeenWhat};
use super::{events, filter, open};
use crate::losses::RingLosses;

#[derive(Debug)]
pub(super) struct Ring {
    cpu: u32,
    bytes: usize,
    /// KVM's, which are not filtered.
    buffer: Buffer,
    filtered: Vec<Counter>,
    /// Sum of the counts of filtered events that were replaced.
    retired: u64,
    /// Filtered events that were read so far.
    sched: u64,
}

impl Ring {
    /// Opens the events that are not filtered, disabled.
    pub(super) fn open(events: &Events, cpu: u32, bytes: usize) -> io::Result<Self> {
        let ids = events.to_open();
        let unfiltered = ids.iter().filter(|(_, by)| *by == Filter::None);
        let unfiltered: Vec<_> = unfiltered.map(|(id, _)| (*id, None)).collect();
        Ok(Self {
            cpu,
            bytes,
            buffer: Buffer::open(&unfiltered, cpu, bytes)?,
            filtered: Vec::new(),
            retired: 0,
            sched: 0,
        })
    }

    /// Begins to record. The event that ends a halt comes last, so that no halt is seen whose other
    /// events were not.
    pub(super) fn enable(&mut self) -> io::Result<()> {
        self.buffer.enable()
    }

    /// Ends recording. What is in the ring stays readable.
    pub(super) fn disable(&mut self) -> io::Result<()> {
        let mut result = self.buffer.disable();
        for counter in &mut self.filtered {
            result = result.and(counter.disable());
        }
        result
    }

    /// Sees the sleeps and wake-ups of these threads, and of few others.
    ///
    /// An event takes one filter in its life (`ftrace_profile_set_filter`), so new events replace the
    /// old. For a moment both record; what comes twice says the same twice.
    pub(super) fn watch(&mut self, events: &Events, tids: &[Tid]) -> io::Result<()> {
        let mut fresh = Vec::new();
        for (id, by) in events.to_open() {
            let filter = match by {
                Filter::None => continue,
                Filter::Waking => filter::threads("pid", tids),
                Filter::Switch => {
                    let threads = filter::threads("prev_pid", tids);
                    format!("{}&&({threads})", events::telling_state())
                }
            };
            let mut counter = open::tracepoint(id, self.cpu, self.bytes)?;
            open::set_filter(&counter, &filter)?;
            open::share_ring(&counter, self.buffer.owner())?;
            counter.enable()?;
            fresh.push(counter);
        }
        for mut old in std::mem::replace(&mut self.filtered, fresh) {
            old.disable()?;
            self.retired = self.retired.saturating_add(old.read()?);
        }
        Ok(())
    }

    pub(super) fn read(&mut self, events: &Events, mut sink: impl FnMut(Seen)) {
        let sched = &mut self.sched;
        self.buffer.read(|time_ns, given| {
            let (pid, what) = match given {
                Given::Event { pid, raw } => (pid, events.parse(raw)),
                Given::Gap => (0, Some(SeenWhat::Whole(What::Gap))),
            };
            let Some(what) = what else { return false };
            if matches!(
                what,
                SeenWhat::Waking { .. } | SeenWhat::Whole(What::Slept { .. })
            ) {
                *sched += 1;
            }
            let pid = Pid(pid);
            sink(Seen { time_ns, pid, what });
            true
        });
    }

    pub(super) fn losses(&self) -> RingLosses {
        self.buffer.losses
    }

    /// How many events the kernel counted that were neither read nor told as lost: KVM's and the
    /// scheduler's. Only meaningful when recording has ended and the ring is empty.
    pub(super) fn unaccounted(&mut self) -> io::Result<(u64, u64)> {
        let kvm = self.buffer.counted()?;
        let mut sched = self.retired;
        for counter in &mut self.filtered {
            sched = sched.saturating_add(counter.read()?);
        }
        // Events reported as lost may be of either kind.
        let kvm = kvm.saturating_sub(self.buffer.read - self.sched);
        let sched = sched.saturating_sub(self.sched);
        let RingLosses { lost, unreadable } = self.buffer.losses;
        let told = lost.saturating_add(unreadable);
        let left = told.saturating_sub(kvm);
        Ok((kvm.saturating_sub(told), sched.saturating_sub(left)))
    }
}
