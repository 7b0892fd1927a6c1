//! Our programs, and what the kernel says of each.
#![allow(
    unsafe_code,
    reason = "libbpf-rs reads what the kernel says of a program only for all programs of the host, and does not have \
              them timed"
)]

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use haltwise_core::recording::Missing;
use libbpf_rs::{Link, MapCore, MapFlags, ProgramMut, libbpf_sys};

use super::attach::explain;
use crate::bytes::u64_at;
use crate::collector::CollectError;

/// Purpose of a program: sums are kept by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// `kvm_vcpu_wakeup`: once for each halt.
    Halt,
    /// `kvm_halt_poll_ns`: at most once for each halt.
    Window,
    /// `sched_waking`: for every task that is woken; once for a halt that waited.
    Waking,
    Other,
    /// `kvm_exit`, as kernels tell it: one of its programs is attached.
    Exit,
    /// `kvm_emulate_insn`.
    Emulation,
    AboutExits,
}

pub(super) const ROLES: usize = Role::AboutExits as usize + 1;

/// One of our programs, with what a recording that has to do without it lacks: a field, and why. Programs that send
/// records are indispensable: these have none.
pub(super) type Program<'a> = (
    Role,
    &'a ProgramMut<'a>,
    Option<(&'static str, &'static str)>,
);

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Runs {
    pub(super) count: u64,
    pub(super) time_ns: u64,
}

impl Runs {
    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.time_ns += other.time_ns;
    }

    pub(super) fn since(self, start: Self) -> Self {
        Self {
            count: self.count.saturating_sub(start.count),
            time_ns: self.time_ns.saturating_sub(start.time_ns),
        }
    }
}

pub(super) fn run_count(program: BorrowedFd<'_>) -> Runs {
    info(program).map_or_else(Runs::default, |info| Runs {
        count: info.run_cnt,
        time_ns: info.run_time_ns,
    })
}

pub(super) fn runs(programs: &[Program<'_>]) -> [Runs; ROLES] {
    let mut runs = [Runs::default(); ROLES];
    for (role, program, _) in programs {
        runs[*role as usize].add(run_count(program.as_fd()));
    }
    runs
}

/// How often the kernel left a program out, ever; it tells so from 5.12 on.
pub(super) fn misses(program: BorrowedFd<'_>) -> u64 {
    info(program).map_or(0, |info| info.recursion_misses)
}

fn info(program: BorrowedFd<'_>) -> Option<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = u32::try_from(size_of_val(&info)).unwrap_or(0);
    let target = std::ptr::from_mut(&mut info).cast();
    // SAFETY: `target` points to `size` bytes that live until the call returns; the kernel fills at
    // most that many.
    let failed = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_fd().as_raw_fd(), target, &raw mut size)
    };
    (failed == 0).then_some(info)
}

pub(super) fn start_timing() -> Option<OwnedFd> {
    // SAFETY: takes a plain enum value and returns a new descriptor or a negative number.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the kernel has just made this descriptor for us; no other code owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Links in the order in which they were made, the one that sends a record last: then the first record
/// finds everything else in place. They go in the opposite order, for every one takes the kernel its
/// time, tens of milliseconds on a busy host: what goes earlier is missing from the records of that time.
#[derive(Debug, Default)]
pub(super) struct Links(Vec<Link>);

impl Links {
    pub(super) fn push(&mut self, link: Link) {
        self.0.push(link);
    }

    /// Keeps the link of a program that a recording can do without; else says what is missing.
    pub(super) fn keep(
        &mut self,
        attached: libbpf_rs::Result<Link>,
        tracepoint: &str,
        field: &str,
        without_it: &str,
    ) -> Option<Missing> {
        let why = match attached {
            Ok(link) => {
                self.push(link);
                return None;
            }
            Err(error) => format!("tracepoint {tracepoint} cannot be attached ({error})"),
        };
        Some(Missing::new(field, format!("{without_it}: {why}")))
    }

    pub(super) fn detach(&mut self) {
        while self.0.pop().is_some() {}
    }

    /// Attaches all programs that a recording can do without; says what is missing where one cannot be.
    pub(super) fn attach_all(&mut self, programs: &[Program<'_>]) -> Vec<Missing> {
        let optional = programs.iter().filter_map(|(_, program, without)| {
            let (field, without_it) = (*without)?;
            self.attach(program, field, without_it)
        });
        optional.collect()
    }

    pub(super) fn attach(
        &mut self,
        program: &ProgramMut<'_>,
        field: &str,
        without_it: &str,
    ) -> Option<Missing> {
        let section = program.section().to_string_lossy();
        let tracepoint = section.rsplit('/').next().unwrap_or_default();
        self.keep(program.attach(), tracepoint, field, without_it)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.detach();
    }
}

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

pub(super) fn of_idle(role: Role) -> &'static str {
    match role {
        Role::Halt => left_out!("idle periods: runs of cpu_idle's program"),
        Role::Window => left_out!("grow and shrink: runs of guest_halt_poll_ns's program"),
        Role::Waking => left_out!("wakes: runs of sched_wake_idle_without_ipi's program"),
        other => of_kvm(other),
    }
}

pub(super) fn count_of(map: &impl MapCore, key: u32, what: &str) -> Result<u64, CollectError> {
    let per_cpu = map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY);
    let per_cpu = per_cpu.map_err(explain(what))?.unwrap_or_default();
    Ok(per_cpu.iter().filter_map(|bytes| u64_at(bytes, 0)).sum())
}

/// How often the kernel left programs out, by the data that is missing.
///
/// A program that is under way on a CPU is not begun again there (`__bpf_trace_run` in `kernel/trace/bpf_trace.c`, from
/// 6.1 on): the kernel counts a miss, and what the run would have reported is lost as in a full ring.
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
