//! What was read, and what was passed over, counted by reason.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::event::Lost;

/// Why something of the text is not in the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skipped {
    /// A line that no tool prints.
    Damaged,
    /// More than one event on a line.
    RunTogether,
    /// An event whose time does not fit to the others.
    OutOfOrder,
    /// A line that was printed twice.
    Repeated,
    /// A halt of a thread that had not ended its last one.
    Overlapping,
    /// An event from a clock that stepped back and had not caught up.
    SteppedBack,
    /// An event whose time is in ticks.
    Ticks,
    /// A halt of a thread beyond the most that are told apart.
    TooManyThreads,
    /// Told by the tracer: events that it lost.
    ByTracer,
    /// Told by ftrace's header: older events that were overwritten.
    Overwritten,
}

impl Skipped {
    /// As a capture and a screen name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Damaged => "import: damaged lines",
            Self::RunTogether => "import: lines run together",
            Self::OutOfOrder => "import: events out of order",
            Self::Repeated => "import: lines printed twice",
            Self::Overlapping => "import: halts that overlap others of their thread",
            Self::SteppedBack => "import: events after the clock stepped back",
            Self::Ticks => "import: times in ticks of an unknown clock",
            Self::TooManyThreads => "import: events of too many threads",
            Self::ByTracer => "lost by the tracer",
            Self::Overwritten => "overwritten in ftrace's buffer",
        }
    }
}

/// Names of other events that are kept.
const NAMES: usize = 8;

/// Counts of one import.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) events: u64,
    /// Events of no use.
    pub(super) other_events: u64,
    pub(super) other_names: BTreeSet<Vec<u8>>,
    skipped: BTreeMap<Skipped, u64>,
    told: BTreeMap<Skipped, u64>,
}

impl Tally {
    pub(super) fn skip(&mut self, why: Skipped, count: u64) {
        if count > 0 {
            let sum = self.skipped.entry(why).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    pub(super) fn other(&mut self, name: &[u8]) {
        self.other_events += 1;
        if self.other_names.len() < NAMES && !self.other_names.contains(name) {
            self.other_names.insert(name.to_vec());
        }
    }

    pub(super) fn skipped(&self) -> &BTreeMap<Skipped, u64> {
        &self.skipped
    }

    /// What was skipped since the last call, as rows of a capture.
    pub(super) fn take_lost(&mut self, time_ns: u64) -> Vec<Lost> {
        let mut lost = Vec::new();
        for (why, count) in &self.skipped {
            let told = self.told.insert(*why, *count).unwrap_or(0);
            if *count > told {
                lost.push(Lost {
                    time_ns,
                    count: count - told,
                    place: why.as_str().to_owned(),
                });
            }
        }
        lost
    }
}
