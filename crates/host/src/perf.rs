//! The tracepoint source: KVM's tracepoints through perf events, without BPF.
//!
//! ```text
//! kernel ─ open ─► ring, one per CPU ─► record ─► events ─► order ─► decode ─► Halt, WindowChange
//!            ▲                                                  └► counts ─► HaltCounts
//!            └─ filter: only what happens to known vCPU threads
//! ```
//!
//! `open` and `ring` do the I/O; `record`, `events`, `counts` and `filter` are pure, as is what order
//! and meaning come from: [`haltwise_core::decode`]. `collector` joins them.
//!
//! `idle` records this machine's own idle CPUs by the same means (`record --guest`).
//!
//! [`Collector::missing`](crate::collector::Collector::missing) names the data that this source cannot see:
//! ceilings of single VMs before a clamp shows them, wake sources of halts that only polled, guests
//! that switched host polling off.

pub(crate) mod collector;
mod counts;
mod events;
#[doc(hidden)]
pub mod fuzz;
mod idle;
pub(crate) mod open;
mod places;
#[cfg(test)]
mod recorded;
mod ring;

pub use self::collector::PerfCollector;
pub use self::idle::IdlePerfCollector;
