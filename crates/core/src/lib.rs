//! # haltwise-core: what a halt is, and what it costs
//!
//! Pure code: no I/O, no clock, no thread, no ambient randomness, no `unsafe`, no hash-map order.
//! Everything here can be recomputed from a capture, byte for byte.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | nanoseconds, durations as people write them |
//! | [`ids`] | processes, threads, VMs, vCPUs |
//! | [`identity`] | what else a VM is called: UUID, Proxmox VMID, pod, cgroup |
//! | [`vmm`] | what a VMM does beside running vCPUs, and what its command line says of its devices |
//! | [`event`] | the facts: [`event::Halt`] and its neighbours |
//! | [`exit`] | exits counted by cause, the names of their reasons, and their account |
//! | [`profile`] | samples of where VMMs spend their time: sums, areas, hot symbols, trees |
//! | [`explain`] | rules: what a recording shows that can be put right |
//! | [`recording`] | how the facts were obtained, and what is missing from them |
//! | [`decode`] | tracepoints in order of time, folded into halts |
//! | [`hist`] | KVM's log2 histogram and our finer one |
//! | [`account`] | where halted time goes, of a vCPU, a VM, a host |
//! | [`policy`] | rules that decide how long to poll, and the texts that name them |
//! | [`replay`] | what recorded halts would have cost under a policy |
//! | [`prove`] | two settings measured in turn: the experiment's design and its judgement |
//! | [`topology`] | which CPUs share a core or a cache |
//! | [`stats`] | medians, percentiles, intervals |
//! | [`workload`] | seeded processes that draw the gaps between wake-ups |
//! | [`kvm`] | the reference model: what KVM and the guest's governor do with a halt, kernel by kernel |
//! | [`parameter`] | the parameters of halt polling, and values of some of them |
//! | [`verify`] | recorded halts, held against the reference model |
//! | [`tune`] | which setting serves recorded halts best |
//! | [`pilot`] | which setting serves each VM now, decided all the time |
//!
//! Later modules stand on these in this order: `kvm -> policy -> replay -> tune -> pilot`.
#![forbid(unsafe_code)]

/// Test data that tests of other crates include names this crate from outside.
#[cfg(test)]
extern crate self as haltwise_core;

pub mod account;
pub mod costs;
pub mod decode;
pub mod diff;
pub mod event;
pub mod exit;
pub mod explain;
pub mod fleet;
#[doc(hidden)]
pub mod fuzz;
pub mod hist;
pub mod identity;
pub mod ids;
pub mod join;
pub mod kvm;
mod names;
pub mod parameter;
pub mod pilot;
pub mod policy;
pub mod profile;
pub mod prove;
pub mod recording;
pub mod replay;
pub mod stats;
pub mod topology;
pub mod tune;
pub mod units;
pub mod verify;
pub mod vmm;
pub mod workload;
