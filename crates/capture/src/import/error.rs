//! Why a text cannot be imported. What can be read around is counted instead.

use std::io;
use std::path::PathBuf;

use crate::error::CaptureWriteError;

/// Why a text cannot be imported. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It is a recording, but not printed yet, or packed.
    #[error("it is {what}, not text")]
    Binary {
        what: &'static str,
        /// What makes text of it.
        remedy: &'static str,
    },
    /// No line of it is an event.
    #[error(
        "none of its {lines} lines is an event as ftrace, perf script or trace-cmd report print them{why}"
    )]
    NoTrace {
        lines: u64,
        /// Why not, of its first line.
        why: String,
    },
    /// It is a table of counters.
    #[error("it is {what}: counters, no halts{found}")]
    Counters { what: &'static str, found: String },
    /// Its lines do not tell whose halts they are.
    #[error("its lines name no thread{vcpus}, so that it is not known whose halts they are")]
    Threadless {
        /// The vCPUs that they name.
        vcpus: String,
    },
    /// Its times are not in seconds.
    #[error("its {lines} events have times in ticks of a clock of unknown speed")]
    Ticks {
        /// Such events.
        lines: u64,
    },
    /// No event tells of a halt.
    #[error("none of its {events} events is a halt (kvm_vcpu_wakeup){others}{damaged}")]
    NoHalts {
        events: u64,
        /// Which there were, in words.
        others: String,
        /// What is wrong with a line that would be one.
        damaged: String,
    },
    /// All events of halts were passed over.
    #[error("nothing is left of its {events} events: {skipped}")]
    NothingLeft {
        events: u64,
        /// Why, in words.
        skipped: String,
    },
    /// It could not be read to its end.
    #[error("read on after {bytes} bytes")]
    Read {
        /// Bytes read before.
        bytes: u64,
        #[source]
        source: io::Error,
    },
    /// The caller stopped it.
    #[error("interrupted after {bytes} bytes")]
    Interrupted {
        /// Bytes read before.
        bytes: u64,
    },
    /// The place for the capture cannot be used.
    #[error("{act} {path}")]
    Output {
        act: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The capture cannot be written.
    #[error(transparent)]
    Write(#[from] CaptureWriteError),
}
