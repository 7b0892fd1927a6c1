//! Our programs, and what the kernel says of each.
#![allow(
    unsafe_code,
    reason = "libbpf-rs reads what the kernel says of a program only for all programs of the host, and does not have \
              them timed"
)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{ProgramMut, libbpf_sys};

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

/// How often a program ran and for how long, while timing was on.
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

/// Has the kernel time programs for as long as this is there.
pub(super) fn start_timing() -> Option<OwnedFd> {
    // SAFETY: takes a plain enum value and returns a new descriptor or a negative number.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the kernel has just made this descriptor for us; no other code owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
