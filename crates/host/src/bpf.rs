//! The BPF source: BPF programs on raw tracepoints, with every vCPU of the host in view.
//!
//! `kvm_vcpu_wakeup` carries neither VM nor vCPU. So the vCPUs are found first, by a walk over open
//! files (`walk`); the programs then read each halt's window, ceiling and polled time from
//! `struct kvm_vcpu` itself, in the vCPU's own thread. The programs report facts. What they mean is
//! decided here: `wake` says what ended a halt, `record` makes a [`haltwise_core::event::Halt`].
//!
//! No program runs on `sched_switch`: the time polled, and which polls were preempted, come from the growth of KVM's own
//! counters, which is exact and costs three reads. The tracepoint source cannot read counters and uses `sched_switch`.

mod attach;
mod collector;
mod counts;
mod exits;
mod idle;
#[cfg(test)]
mod on_request;
mod places;
mod program;
mod record;
mod ring;
pub(crate) mod sample;
mod skel;
mod stats;
mod walk;

pub use self::collector::BpfCollector;
#[doc(hidden)]
pub use self::exits::fuzz_cell;
pub use self::idle::{IdleCollector, fuzz_idle};
pub(crate) use self::program::serve_timing;
pub use self::record::fuzz_record;
pub use self::walk::{FoundVcpu, vcpus};
