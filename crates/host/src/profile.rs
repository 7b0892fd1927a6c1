//! Samples of the threads of VMMs: where they spend their time.
//!
//! ```text
//! perf event on each CPU ─► BPF: a VMM's? ─► perf ring of the CPU ─► record ─► symbol_cache ─► Rows
//!                            + which exit                                        │
//!                                             kallsyms, maps, ELF files ─► symbols
//! ```
//!
//! Events fire on every CPU, so that threads need not be known: those of a process that runs a VM are
//! sampled from their first moment on. A BPF program (`bpf::sample`) drops the others' in the
//! kernel; without BPF they are dropped here. Where the CPU clock is sampled, its timer runs on idle
//! CPUs too and wakes them.
//!
//! perf writes a sample's record, since only perf knows whether the guest was hit and how to walk a stack: the BPF program
//! that filters lets an event of type `bpf-output` write it. The exit that the thread last noted follows the record;
//! without exits, the function on the stack that handles one says which it is.

mod elf;
mod files;
#[doc(hidden)]
pub mod fuzz;
pub(crate) mod namer;
mod open;
mod profiler;
mod record;
mod symbol_cache;
mod symbols;

use haltwise_core::ids::Pid;
use haltwise_core::profile::Event;

pub use self::profiler::Profiler;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileOptions {
    pub hz: u32,
    /// Events to sample. Empty for cycles, or the CPU clock where there are none, and whatever else of
    /// [`Event::Instructions`], [`Event::CacheMisses`] and [`Event::DtlbMisses`] there is.
    pub events: Vec<Event>,
    /// Only VMs of these processes; empty for all.
    pub vms: Vec<Pid>,
}

/// The samples a second that a kernel allows (`kernel.perf_event_max_sample_rate`), where it says so.
pub fn most_hz(root: &crate::root::Root) -> Option<u32> {
    root.number("proc/sys/kernel/perf_event_max_sample_rate")
        .ok()
}
