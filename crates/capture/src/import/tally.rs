//! Counts of what was read, and of what was passed over, by reason.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::event::Lost;

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
