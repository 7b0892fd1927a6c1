//! What every rung of the ladder offers to a recorder.
//!
//! The rungs themselves live beside this file: [`crate::bpf`] and [`crate::perf`].

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use haltwise_core::event::Facts;
use haltwise_core::recording::{Missing, Mode, Roster, Rung};

use crate::exits::ExitOptions;

/// A source of halts that is attached to this host.
pub trait Collector: std::fmt::Debug {
    /// Which rung this is.
    fn rung(&self) -> Rung;

    /// Moves everything that is ready into `facts`. Does not wait for more.
    fn drain(&mut self, facts: &mut Facts) -> Result<(), CollectError>;

    /// Detaches from the kernel, then moves what is left into `facts`.
    fn stop(&mut self, facts: &mut Facts) -> Result<(), CollectError>;

    /// Who was seen so far.
    fn roster(&self) -> &Roster;

    /// What this rung cannot tell on this host, and why.
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
}

/// What to collect.
#[derive(Debug, Clone)]
pub struct CollectOptions {
    /// One record for each halt, or counts only.
    pub mode: Mode,
    /// The VMs wanted, by process; empty for all.
    pub vms: Vec<haltwise_core::ids::Pid>,
    /// Length of an interval in counts mode.
    pub interval: Duration,
    /// Size of the buffer between kernel and recorder, in bytes (a power of two).
    pub buffer_bytes: u32,
    /// Exits, if they are wanted too. Only the BPF rung can.
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

/// Why halts cannot be collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The kernel lacks something that this rung stands on.
    #[error("{what}: not offered by this kernel")]
    Unsupported {
        /// What was tried.
        what: String,
        /// What the kernel said.
        #[source]
        source: Option<std::io::Error>,
    },
    /// KVM keeps no histograms of polls and waits here: they came with Linux 5.15 (`HALT_POLL_HIST_COUNT`
    /// in `include/linux/kvm_types.h`).
    #[error(
        "read KVM's own histograms of polls and waits: this kernel keeps none (Linux 5.15 and later do)"
    )]
    NoHistograms,
    /// A rung that sees events alone was asked for what KVM counts itself.
    #[error("read KVM's own histograms of polls and waits: tracepoints do not carry them")]
    NotInEvents,
    /// We are not allowed to.
    #[error("{what}: not permitted (needs {need})")]
    Denied {
        /// What was tried.
        what: String,
        /// Which capability it takes.
        need: &'static str,
    },
    /// A file of the kernel could not be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// Anything else.
    #[error("{what}")]
    Failed {
        /// What was tried.
        what: String,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// A record from the kernel does not look as it should.
    #[error("a record of {got} bytes from the kernel where {expected} were expected")]
    Record {
        /// Bytes that came.
        got: usize,
        /// Bytes that should have come.
        expected: usize,
    },
}
