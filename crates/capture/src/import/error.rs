//! Why a text cannot be imported, and what of a text was passed over, counted by its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use haltwise_core::event::Lost;

use crate::error::CaptureWriteError;

/// Why a text cannot be imported. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    #[error("it is empty")]
    Empty,
    #[error("it is {what}, not text")]
    Binary {
        what: &'static str,
        /// Way to make text of the file.
        remedy: &'static str,
    },
    #[error(
        "none of its {lines} lines is an event as ftrace, perf script or trace-cmd report print them{why}"
    )]
    NoTrace {
        lines: u64,
        /// Why not, of its first line.
        why: String,
    },
    #[error("it is {what}: counters, no halts{found}")]
    Counters { what: &'static str, found: String },
    #[error("its lines name no thread{vcpus}, so that it is not known whose halts they are")]
    Threadless { vcpus: String },
    #[error("its {lines} events have times in ticks of a clock of unknown speed")]
    Ticks { lines: u64 },
    #[error("none of its {events} events is a halt (kvm_vcpu_wakeup){others}{damaged}")]
    NoHalts {
        events: u64,
        /// Which there were, in words.
        others: String,
        /// Fault of a line that would be a halt.
        damaged: String,
    },
    #[error("nothing is left of its {events} events: {skipped}")]
    NothingLeft { events: u64, skipped: String },
    #[error("read on after {bytes} bytes")]
    Read {
        bytes: u64,
        #[source]
        source: io::Error,
    },
    #[error("interrupted after {bytes} bytes")]
    Interrupted { bytes: u64 },
    /// The capture cannot be written, or its place cannot be used.
    #[error(transparent)]
    Write(#[from] CaptureWriteError),
}

haltwise_core::names! {
    /// Why something of the text is not in the capture.
    pub enum Skipped {
        /// A line that no tool prints.
        Damaged = "import: damaged lines",
        /// More than one event on a line.
        RunTogether = "import: lines run together",
        /// An event whose time does not fit to the others.
        OutOfOrder = "import: events out of order",
        Repeated = "import: lines printed twice",
        /// A halt of a thread that had not ended its last one.
        Overlapping = "import: halts that overlap others of their thread",
        /// An event from a clock that stepped back and had not caught up.
        SteppedBack = "import: events after the clock stepped back",
        Ticks = "import: times in ticks of an unknown clock",
        /// A halt of a thread beyond the limit on threads.
        TooManyThreads = "import: events of too many threads",
        ByTracer = "lost by the tracer",
        /// Older events that were overwritten, as ftrace's header counts them.
        Overwritten = "overwritten in ftrace's buffer",
    }
}

const NAMES: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) events: u64,
    pub(super) other_events: u64,
    pub(super) other_names: BTreeSet<Vec<u8>>,
    pub(super) skipped: BTreeMap<Skipped, u64>,
    /// Those of them that are in no row yet.
    unwritten: BTreeMap<Skipped, u64>,
}

impl Tally {
    pub(super) fn skip(&mut self, why: Skipped, count: u64) {
        for counts in [&mut self.skipped, &mut self.unwritten] {
            if count > 0 {
                let sum = counts.entry(why).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }

    pub(super) fn other(&mut self, name: &[u8]) {
        self.other_events += 1;
        if self.other_names.len() < NAMES && !self.other_names.contains(name) {
            self.other_names.insert(name.to_vec());
        }
    }

    /// Takes the counts of what was skipped since the last call, as rows of a capture.
    pub(super) fn take_lost(&mut self, time_ns: u64) -> impl Iterator<Item = Lost> {
        let unwritten = std::mem::take(&mut self.unwritten).into_iter();
        unwritten.map(move |(why, count)| Lost {
            time_ns,
            count,
            place: why.as_str().to_owned(),
        })
    }
}
