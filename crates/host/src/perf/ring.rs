//! The ring of one CPU, and the events of KVM and the scheduler that write to it.

use std::{fmt, io};

use haltwise_core::decode::What;
use haltwise_core::ids::{Pid, Tid};
use perf_event::Counter;

use super::buffer::{Buffer, Given};
use super::events::{Events, Filter, Seen, SeenWhat};
use super::{events, filter, open};

pub(super) struct Ring {
    cpu: u32,
    bytes: usize,
    /// KVM's, which are not filtered.
    buffer: Buffer,
    filtered: Vec<Counter>,
    /// What the filtered events before these had counted.
    retired: u64,
    tally: Tally,
}

/// What was read from a ring so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Samples read of the events that are not filtered: KVM's.
    pub(super) kvm: u64,
    pub(super) sched: u64,
    /// Events of which the kernel said that they were lost.
    pub(super) lost: u64,
    /// Records that could not be read: a fault of ours or of the kernel.
    pub(super) unreadable: u64,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("cpu", &self.cpu)
            .field("tally", &self.tally)
            .finish_non_exhaustive()
    }
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
            tally: Tally::default(),
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
        let tally = &mut self.tally;
        self.buffer.read(|time_ns, given| {
            let (pid, what) = match given {
                Given::Event { pid, raw } => (pid, events.parse(raw)),
                Given::Gap => (0, Some(SeenWhat::Whole(What::Gap))),
            };
            let Some(what) = what else { return false };
            match what {
                SeenWhat::Waking { .. } | SeenWhat::Whole(What::Slept { .. }) => tally.sched += 1,
                SeenWhat::Whole(What::Gap) => {}
                SeenWhat::Whole(_) => tally.kvm += 1,
            }
            let pid = Pid(pid);
            sink(Seen { time_ns, pid, what });
            true
        });
        let losses = self.buffer.losses();
        (self.tally.lost, self.tally.unreadable) = (losses.lost, losses.unreadable);
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// How many events the kernel counted that were neither read nor told as lost: KVM's and the
    /// scheduler's. Only meaningful when recording has ended and the ring is empty.
    pub(super) fn unaccounted(&mut self) -> io::Result<(u64, u64)> {
        let kvm = self.buffer.counted()?;
        let mut sched = self.retired;
        for counter in &mut self.filtered {
            sched = sched.saturating_add(counter.read()?);
        }
        let Tally {
            kvm: kvm_read,
            sched: sched_read,
            lost,
            unreadable,
        } = self.tally;
        // What was told as lost may have been of either kind.
        let kvm = kvm.saturating_sub(kvm_read);
        let sched = sched.saturating_sub(sched_read);
        let told = lost.saturating_add(unreadable);
        let left = told.saturating_sub(kvm);
        Ok((kvm.saturating_sub(told), sched.saturating_sub(left)))
    }
}
