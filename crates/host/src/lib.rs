//! # haltwise-host: the only library that knows Linux
//!
//! It reads what the kernel says about halts and hands it on as facts ([`haltwise_core::event`]).
//! It judges nothing and prints nothing.
//!
//! | module | holds |
//! |---|---|
//! | [`collector`] | what every source offers: drain facts, stop, tell who was seen |
//! | [`bpf`] | the BPF source: BPF programs on raw tracepoints |
//! | [`perf`] | the tracepoint source: tracepoints through perf events |
//! | [`clock`] | the time |
//! | [`command`] | a command that runs beside us, as another user if asked, and ends with us |
//! | [`exits`] | what to record of exits, and what the kernel calls its reasons |
//! | [`profile`] | samples of the threads of VMMs |
//! | [`root`] | where `/proc`, `/sys` and `/dev` are; reads with errors that name the path |
//! | [`cpuidle`] | what cpuidle has counted, for a guest's own recording |
//! | `cpus` | which CPUs this machine has |
//! | [`cycles`] | cycles and instructions that the CPUs' PMUs count |
//! | [`discovery`] | which VMs run here, their names and threads, the roster |
//! | [`knob`] | the only writer: parameters set, journaled and undone |
//! | [`params`] | the settings in force, and what changed |
//! | [`companion`] | processes that a recorder starts beside itself |
//! | [`guest_agent`] | parameters in a Linux guest, by its QEMU guest agent |
//! | `bytes` | numbers in bytes that a kernel wrote |
//! | `losses` | what was lost, reported once |
//! | `opaque` | a value without words of its own for `{:?}` |
//! | `idle` | this machine and its own idle CPUs |
//! | [`host_sample`] | how busy the host is, and what the recorder takes of it |
//! | [`sandbox`] | what a process gives up before it touches what others may have written |
//! | `process_files` | files of other processes in `/proc`, read with a deadline |
//! | `taken` | sockets of VMMs, taken by a child |
//! | [`support`] | which sources this host allows, and the traps of its kernel |
//! | [`tracefs`] | where the kernel describes its tracepoints |
//! | [`usage`] | what CPUs and threads used: time idle, energy, CPU time |
//! | [`wakeup`] | what sleeping and waking cost a thread |

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
mod idle;
pub mod knob;
mod losses;
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
