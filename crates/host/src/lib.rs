//! # haltwise-host: the only library that knows Linux
//!
//! It reads what the kernel says about halts and hands it on as facts ([`haltwise_core::event`]).
//! It judges nothing and prints nothing. Each module says what it holds.

pub mod bpf;
mod bytes;
pub mod ceiling;
pub mod clock;
pub mod collector;
pub mod command;
pub mod companion;
pub mod cpuidle;
pub mod cpus;
pub mod cycles;
pub mod discovery;
pub mod exits;
#[doc(hidden)]
pub mod fuzz;
pub mod guest_agent;
pub mod host_sample;
pub mod knob;
mod opaque;
pub mod params;
pub mod perf;
mod process_files;
pub mod profile;
pub mod root;
pub mod sandbox;
pub mod support;
mod taken;
pub mod tracefs;
pub mod usage;
pub mod wakeup;

/// Held by tests that use all CPUs, and by those whose processes must get one soon.
#[cfg(test)]
static ALL_CPUS: std::sync::Mutex<()> = std::sync::Mutex::new(());
