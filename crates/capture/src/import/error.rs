//! Why a text cannot be imported. What can be read around is counted instead.

use std::io;

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
