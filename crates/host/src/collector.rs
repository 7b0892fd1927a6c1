//! Interface that every source offers to a recorder.
//!
//! The sources themselves live beside this file: [`crate::bpf`] and [`crate::perf`].
//!
//! A recording begins when everything is attached ([`Collector::begin`]) and ends before anything is detached
//! ([`Collector::end`]): attaching takes the kernel tens of milliseconds, in which some programs run and others do not. A
//! halt counts by its end. Counts and KVM's statistics are read at both moments, and intervals are stamped after each
//! reading.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use haltwise_core::event::{Facts, Lost};
use haltwise_core::ids::Pid;
use haltwise_core::recording::{Missing, Mode, Roster, Rung};

use crate::exits::ExitOptions;
use crate::root::RootError;

/// How soon a buffer is to be looked at that other events of the host fill too, or a small one.
pub const SOON: Duration = Duration::from_millis(20);

pub trait Collector: std::fmt::Debug {
    fn rung(&self) -> Rung;

    /// Moves everything that is ready into `facts`. Does not wait for more.
    fn drain(&mut self, facts: &mut Facts) -> Result<(), CollectError>;

    /// Rights are about to be dropped (`sandbox`): what takes more than those of a recorder goes to a process of
    /// its own.
    fn confine(&mut self) {}

    /// Counts events of these VMs alone from now on; `false` of a source that has to be attached anew for others.
    fn turn_to(&mut self, _vms: &[Pid]) -> Result<bool, CollectError> {
        Ok(false)
    }

    /// Counts nothing until it is turned to VMs again; `false` of a source that goes on meanwhile.
    fn rest(&mut self) -> Result<bool, CollectError> {
        Ok(false)
    }

    /// In a mode of counts, the end of the last interval that was handed over, on `CLOCK_MONOTONIC`: a vCPU without a
    /// row had no halt in it.
    fn counted_to_ns(&self) -> Option<u64> {
        None
    }

    /// Waits for at most so long: less if its buffer may be full before, or if something came that wants to
    /// be looked at soon.
    fn wait(&mut self, at_most: Duration) -> Result<(), CollectError> {
        std::thread::sleep(at_most.min(SOON));
        Ok(())
    }

    /// Events count from now on, all kinds of them: what came before is dropped. Says when that was, on
    /// `CLOCK_MONOTONIC`. Until it is called, everything counts since the collector was attached.
    fn begin(&mut self) -> Result<u64, CollectError>;

    /// Events count no longer: moves what is ready into `facts`, and says when that was. The rest of what
    /// has counted comes with [`Collector::stop`]. A second call says the same again.
    fn end(&mut self, facts: &mut Facts) -> Result<u64, CollectError>;

    /// Ends if that has not been done, detaches from the kernel, then moves what is left into `facts`.
    fn stop(&mut self, facts: &mut Facts) -> Result<(), CollectError>;

    /// Forgets VMs that ended before a time, of which no fact is kept; gives how many. So a recorder that goes on
    /// for weeks does not grow with every VM that ever ran.
    fn forget_ended(&mut self, _before_ns: u64) -> usize {
        0
    }

    /// Reads the CPU time of all VMs' threads now, and not only every ten seconds: the roster has it.
    fn look_at_threads(&mut self) {}

    fn roster(&self) -> &Roster;

    fn missing(&self) -> Vec<Missing>;

    /// CPU time that the kernel spent for us (BPF programs), where it accounts that.
    fn kernel_cpu_ns(&self) -> Option<u64> {
        None
    }

    /// The map in which the programs that count exits keep what they know of threads, if they run.
    fn exit_threads(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Time that our programs add to one halt, measured on this host, where it can be.
    fn added_ns_per_halt(&self) -> Option<f64> {
        None
    }

    /// Time that our programs add to one exit and its entry, where exits are counted; to an emulated
    /// instruction where the kernel tells no exits.
    fn added_ns_per_exit(&self) -> Option<f64> {
        None
    }

    /// Most bytes of records that waited in memory at once, where a thread reads them ahead.
    fn most_waiting_bytes(&self) -> Option<u64> {
        None
    }
}

/// From when to when events count. A halt counts where it ended: only then does the kernel tell of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counting {
    pub(crate) began_ns: u64,
    pub(crate) ended_ns: Option<u64>,
}

impl Counting {
    pub(crate) fn holds(&self, time_ns: u64) -> bool {
        time_ns >= self.began_ns && self.ended_ns.is_none_or(|ended_ns| time_ns <= ended_ns)
    }
}

#[derive(Debug, Clone)]
pub struct CollectOptions {
    pub mode: Mode,
    pub vms: Vec<Pid>,
    pub interval: Duration,
    /// Size of the buffer between kernel and recorder, in bytes (a power of two).
    pub buffer_bytes: u32,
    /// Exits, if they are wanted too. Only the BPF source can.
    pub exits: Option<ExitOptions>,
}

impl Default for CollectOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Full,
            vms: Vec::new(),
            interval: Duration::from_secs(1),
            buffer_bytes: 16 << 20,
            exits: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    #[error("{what}: not offered by this kernel")]
    Unsupported {
        what: String,
        #[source]
        source: Option<std::io::Error>,
    },
    /// KVM keeps no histograms of polls and waits here: they came with Linux 5.15 (`HALT_POLL_HIST_COUNT`
    /// in `include/linux/kvm_types.h`).
    #[error(
        "read KVM's own histograms of polls and waits: this kernel keeps none (Linux 5.15 and later do)"
    )]
    NoHistograms,
    #[error("read KVM's own histograms of polls and waits: tracepoints do not carry them")]
    NotInEvents,
    #[error("{what}: not permitted (needs {need})")]
    Denied { what: String, need: &'static str },
    #[error("{what}")]
    Failed {
        what: String,
        #[source]
        source: std::io::Error,
    },
    #[error("a record of {got} bytes from the kernel where {expected} were expected")]
    Record { got: usize, expected: usize },
}

impl CollectError {
    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported {
            what: what.into(),
            source: None,
        }
    }

    pub(crate) fn unread(error: RootError) -> Self {
        Self::Failed {
            what: format!("read {}", error.path().display()),
            source: std::io::Error::other(error),
        }
    }

    pub(crate) fn failed<E: Into<std::io::Error>>(
        what: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Failed {
            what: what.into(),
            source: source.into(),
        }
    }
}

pub(crate) fn push_lost(lost: &mut Vec<Lost>, time_ns: u64, count: u64, place: &'static str) {
    if count > 0 {
        lost.push(Lost {
            time_ns,
            count,
            place: place.to_owned(),
        });
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RingLosses {
    pub(crate) lost: u64,
    /// Records that could not be read: a fault of ours or of the kernel.
    pub(crate) unreadable: u64,
}

/// Counts of losses that only grow, by place, as they were last reported.
#[derive(Debug, Default)]
pub(crate) struct Losses(BTreeMap<&'static str, u64>);

impl Losses {
    pub(crate) fn report(
        &mut self,
        lost: &mut Vec<Lost>,
        time_ns: u64,
        counts: impl IntoIterator<Item = (u64, &'static str)>,
    ) {
        for (count, place) in counts {
            let before = self.0.insert(place, count).unwrap_or(0);
            push_lost(lost, time_ns, count.saturating_sub(before), place);
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_loss_is_reported_once_with_its_place() {
        let mut losses = Losses::default();
        let mut report = |time_ns, counts: [u64; 3]| {
            let mut lost = Vec::new();
            losses.report(&mut lost, time_ns, counts.into_iter().zip(["a", "b", "c"]));
            let lost = lost.into_iter();
            lost.map(|lost| (lost.time_ns, lost.count, lost.place))
                .collect::<Vec<_>>()
        };
        let of = |time_ns, count, place: &str| (time_ns, count, place.to_owned());
        assert_eq!(report(1, [0; 3]), []);
        assert_eq!(report(2, [3, 0, 1]), [of(2, 3, "a"), of(2, 1, "c")]);
        assert_eq!(report(3, [3, 0, 1]), []);
        assert_eq!(report(4, [4, 9, 1]), [of(4, 1, "a"), of(4, 9, "b")]);
    }
}
