//! How a recording was made: from which source, in which mode, and what is missing from it.
//!
//! These travel with every capture and reach the last lines of every result.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::event::{Vcpu, Vm};
use crate::topology::Cpu;

crate::names! {
    /// Where facts come from, best first.
    pub enum Rung {
        /// BPF programs on tracepoints, with the vCPUs themselves in view.
        Bpf = "bpf",
        /// Tracepoints through perf events.
        Tracepoints = "tracepoints",
        /// cpuidle's own counters of this machine's CPUs.
        Cpuidle = "cpuidle",
        /// A recording of another tool.
        Import = "import",
    }
}

/// On which side of HLT halts are recorded, or a policy polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The host: KVM, after the vCPU has exited.
    #[default]
    Host,
    /// The guest: its idle loop, before it executes HLT. A poll that ends in a wake saves the exit too. On bare
    /// metal it is the same, without a host behind it.
    Guest,
}

impl Side {
    pub fn is_host(&self) -> bool {
        *self == Self::Host
    }
}

crate::names! {
    pub enum Mode {
        /// One record for each halt.
        Full = "full",
        /// Histograms only, kept in the kernel by our programs.
        Counts = "counts",
        /// KVM's own counters and histograms (`struct kvm_vcpu_stat_generic`), or cpuidle's counters in a guest, read once
        /// an interval: nothing of ours runs when a vCPU halts.
        Stats = "stats",
    }
}

impl Mode {
    /// Whether every halt is there by itself.
    pub fn keeps_halts(self) -> bool {
        self == Self::Full
    }
}

/// A text that is none of the names it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is none of {known}")]
pub struct UnknownName {
    given: String,
    known: &'static str,
}

impl UnknownName {
    pub(crate) fn new(given: &str, known: &'static str) -> Self {
        let given = given.to_owned();
        Self { given, known }
    }
}

impl FromStr for Rung {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rung = Self::from_name(text).filter(|rung| *rung != Self::Import);
        rung.ok_or_else(|| UnknownName::new(text, "bpf, tracepoints, cpuidle"))
    }
}

impl FromStr for Mode {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_name(text).ok_or_else(|| UnknownName::new(text, "full, counts, stats"))
    }
}

/// A fact that this recording cannot hold, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Missing {
    /// The field, as the capture names it, for example `poll_ns`.
    pub field: String,
    /// Why, for example `struct kvm_vcpu has no stat.generic on this kernel`.
    pub reason: String,
}

impl Missing {
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }
}

/// Bytes of records that may wait in the recorder's memory: more than 800,000 halts.
pub const MOST_WAITING_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Overhead {
    /// CPU time of the recorder's process.
    pub recorder_cpu_ns: u64,
    /// CPU time of its BPF programs, where the kernel accounts it.
    pub bpf_cpu_ns: Option<u64>,
    /// Largest resident memory, in bytes.
    pub recorder_rss_bytes: u64,
    /// Time that the programs add to each halt, measured while recording, where it can be.
    pub added_ns_per_halt: Option<f64>,
    /// The same of an exit and its entry; of an emulated instruction where KVM tells no exits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_ns_per_exit: Option<f64>,
    /// Most bytes of records that waited in memory at once, of [`MOST_WAITING_BYTES`], where a thread reads them ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_waiting_bytes: Option<u64>,
}

impl Overhead {
    /// Overhead of this time and the time after it.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        let bpf = self.bpf_cpu_ns.zip(later.bpf_cpu_ns);
        Self {
            recorder_cpu_ns: self.recorder_cpu_ns.saturating_add(later.recorder_cpu_ns),
            bpf_cpu_ns: bpf.map(|(one, other)| one.saturating_add(other)),
            recorder_rss_bytes: self.recorder_rss_bytes.max(later.recorder_rss_bytes),
            added_ns_per_halt: later.added_ns_per_halt.or(self.added_ns_per_halt),
            added_ns_per_exit: later.added_ns_per_exit.or(self.added_ns_per_exit),
            most_waiting_bytes: self.most_waiting_bytes.max(later.most_waiting_bytes),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Roster {
    pub vms: Vec<Vm>,
    /// vCPUs, in order of VM and number.
    pub vcpus: Vec<Vcpu>,
    /// The host's CPUs, where they were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<Cpu>,
}
