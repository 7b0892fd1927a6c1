//! `cpu-pm:exit_latency=2us`: MWAIT and HLT are the guest's own (`-overcommit cpu-pm=on` of QEMU, `KVM_CAP_X86_DISABLE_EXITS`).
//!
//! An idle vCPU neither exits nor halts as KVM counts it: its CPU sleeps in a C-state and stays the guest's. So there is no
//! exit on HLT and no block, the host's CPU is taken for all of the idle time, though without burning it, and no tool on
//! the host sees the vCPU idle. A guest that waits by MWAIT is woken by a store (`mwait_idle`, `intel_idle`), so that no IPI
//! is sent; a timer's interrupt is an exit. `exit_latency` is what the C-state takes to leave, by default 2 us, that of C1
//! in `drivers/idle/intel_idle.c`; deeper states of a guest that sees them take longer.
//! Wins where a vCPU has a CPU of its own. Loses where another task could use it.

use super::Entry;
use super::fixed::Fixed;

pub(super) const ENTRY: Entry = Entry {
    name: "cpu-pm",
    form: "exit_latency=TIME, optional",
    summary: "HLT and MWAIT without exits: an idle vCPU keeps its CPU",
    build: |args, _| {
        let exit_latency_ns = args.time("exit_latency")?.unwrap_or(C1_NS);
        Ok(Box::new(Fixed::of_guest(Some(exit_latency_ns))))
    },
};

const C1_NS: u64 = 2_000;
