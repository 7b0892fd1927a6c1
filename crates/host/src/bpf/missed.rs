//! Losses: what our programs could not hand over, and runs of theirs that the kernel left out.
//!
//! A program that is under way on a CPU is not begun again there (`__bpf_trace_run` in
//! `kernel/trace/bpf_trace.c`, from 6.1 on): the kernel counts a miss, and what the run would have told
//! is gone. Such a miss is a loss like that of a full ring, and told as one.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use libbpf_rs::{MapCore, MapFlags};

use super::attach::explain;
use super::program::{Program, Role, misses};
use crate::bytes::u64_at;
use crate::collector::CollectError;

macro_rules! left_out {
    ($runs:literal) => {
        concat!($runs, " that the kernel left out")
    };
}

/// Data that is missing when the kernel leaves out runs of a program, where KVM's halts are recorded.
pub(super) fn of_kvm(role: Role) -> &'static str {
    match role {
        Role::Halt => left_out!("halts: runs of kvm_vcpu_wakeup's program"),
        Role::Window => left_out!("grow and shrink: runs of kvm_halt_poll_ns's program"),
        Role::Waking => left_out!("wake-ups: runs of sched_waking's program"),
        Role::Other => left_out!("what woke: runs of programs of interrupts and timers"),
        Role::Exit | Role::Emulation | Role::AboutExits => left_out!("exits: runs of programs"),
    }
}

/// The same where idle CPUs are.
pub(super) fn of_idle(role: Role) -> &'static str {
    match role {
        Role::Halt => left_out!("idle periods: runs of cpu_idle's program"),
        Role::Window => left_out!("grow and shrink: runs of guest_halt_poll_ns's program"),
        Role::Waking => left_out!("wakes: runs of sched_wake_idle_without_ipi's program"),
        other => of_kvm(other),
    }
}

/// Count that programs keep under a key of a map, summed over all CPUs.
pub(super) fn count_of(map: &impl MapCore, key: u32, what: &str) -> Result<u64, CollectError> {
    let per_cpu = map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY);
    let per_cpu = per_cpu.map_err(explain(what))?.unwrap_or_default();
    Ok(per_cpu.iter().filter_map(|bytes| u64_at(bytes, 0)).sum())
}

/// How often the kernel left programs out, by what that is of.
pub(super) fn missed(
    programs: &[Program<'_>],
    of: fn(Role) -> &'static str,
) -> impl Iterator<Item = (u64, &'static str)> {
    let mut counts = BTreeMap::<_, u64>::new();
    for (role, program, _) in programs {
        *counts.entry(of(*role)).or_default() += misses(program.as_fd());
    }
    counts.into_iter().map(|(of, count)| (count, of))
}
