//! The second rung: KVM's tracepoints through perf events, without BPF.
//!
//! ```text
//! kernel ─ open ─► ring, one per CPU ─► record ─► events ─► order ─► decode ─► Halt, WindowChange
//!            ▲                                                  └► counts ─► HaltCounts
//!            └─ filter: only what happens to known vCPU threads
//! ```
//!
//! `open` and `ring` do the I/O; `record`, `events`, `order`, `decode`, `counts`, `filter` and
//! `waker` are pure. `collector` joins them.
//!
//! What this rung cannot see is named by [`Collector::missing`](crate::collector::Collector::missing):
//! ceilings of single VMs before a clamp shows them, wake sources of halts that only polled, guests
//! that switched host polling off.

mod collector;
mod counts;
pub mod decode;
mod events;
mod explain;
mod filter;
#[doc(hidden)]
pub mod fuzz;
mod limits;
mod open;
mod order;
mod places;
mod record;
#[cfg(test)]
mod recorded;
mod ring;
mod waker;

pub use self::collector::PerfCollector;
