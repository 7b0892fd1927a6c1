//! A recording as the report needs it: its accounts, and how they were obtained.

use haltwise_core::account::ledger::Ledger;
use haltwise_core::recording::{Missing, Mode, Overhead, Roster, Rung};

/// What a report is made from.
#[derive(Debug)]
pub(crate) struct Recording {
    /// From which rung.
    pub(crate) rung: Rung,
    /// What was kept.
    pub(crate) mode: Mode,
    /// The host's name.
    pub(crate) hostname: String,
    /// Its kernel's release.
    pub(crate) kernel: String,
    /// Who recorded, with version.
    pub(crate) recorder: String,
    /// Wall clock at the start (RFC 3339), where known.
    pub(crate) started_utc: Option<String>,
    /// Start, on the host's `CLOCK_MONOTONIC`.
    pub(crate) start_ns: u64,
    /// End, on the same clock.
    pub(crate) end_ns: u64,
    /// The recording did not end by itself: what is here is all that was written.
    pub(crate) cut: bool,
    /// A part of it cannot be read, or is not as it was written.
    pub(crate) damaged: bool,
    /// Anything else the reader of the capture has to say.
    pub(crate) notes: Vec<String>,
    /// Who was seen.
    pub(crate) roster: Roster,
    /// What this recording cannot hold.
    pub(crate) missing: Vec<Missing>,
    /// What the recorder cost.
    pub(crate) overhead: Option<Overhead>,
    /// Events lost, by place.
    pub(crate) lost: Vec<(String, u64)>,
    /// The accounts.
    pub(crate) ledger: Ledger,
}

impl Recording {
    /// Whether there was more than can be read.
    pub(crate) fn is_partial(&self) -> bool {
        self.cut || self.damaged
    }
}
