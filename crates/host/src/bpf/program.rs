//! Our programs, and what the kernel says of each.
#![allow(
    unsafe_code,
    reason = "libbpf-rs reads what the kernel says of a program only for all programs of the host, and does not have \
              them timed"
)]

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::process::{Child, ChildStdin};

use haltwise_core::recording::Missing;
use libbpf_rs::{Link, MapCore, MapFlags, ProgramMut, libbpf_sys};

use super::attach::explain;
use crate::bytes::u64_at;
use crate::collector::CollectError;
use crate::root::Root;
use crate::{companion, sandbox};

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
    // SAFETY: `target` points to `size` bytes that outlive the call; the kernel fills at most that many.
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

const SAMPLE_NS: u64 = 200_000_000;
const PERIOD_NS: u64 = 4_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Cost {
    is_timed: bool,
    timer: Timer,
    sample_start_ns: u64,
    at_start: [Runs; ROLES],
    next_ns: u64,
    sampled: [Runs; ROLES],
    sampled_ns: u64,
    /// Since when the programs are attached, and for how long they were before.
    attached_since_ns: Option<u64>,
    attached_ns: u64,
}

impl Cost {
    /// From now on a process of its own has programs timed: this one may lose the right to.
    pub(super) fn hand_over(&mut self, root: &Root) {
        // Without it, what the programs cost is known from before only.
        drop(self.timer.hand_over(root));
    }

    pub(super) fn tick(&mut self, now_ns: u64, programs: &[Program<'_>]) {
        let since_ns = *self.attached_since_ns.get_or_insert(now_ns);
        if self.is_timed {
            if now_ns.saturating_sub(self.sample_start_ns) >= SAMPLE_NS {
                self.end_sample(now_ns, programs);
            }
        } else if now_ns >= self.next_ns.max(since_ns) {
            self.next_ns = now_ns + PERIOD_NS;
            self.sample_start_ns = now_ns;
            self.is_timed = self.timer.begin();
            self.at_start = runs(programs);
        }
    }

    /// The programs are about to be detached; the next tick says that they are attached again.
    pub(super) fn rest(&mut self, now_ns: u64, programs: &[Program<'_>]) {
        self.end_sample(now_ns, programs);
        self.attached_ns = self.attached_ns(now_ns);
        self.attached_since_ns = None;
    }

    fn attached_ns(&self, now_ns: u64) -> u64 {
        let since_ns = self.attached_since_ns.unwrap_or(now_ns);
        self.attached_ns + now_ns.saturating_sub(since_ns)
    }

    fn end_sample(&mut self, now_ns: u64, programs: &[Program<'_>]) {
        if !std::mem::take(&mut self.is_timed) {
            return;
        }
        self.timer.end();
        let since_start = runs(programs).into_iter().zip(self.at_start);
        for (sum, (end, start)) in self.sampled.iter_mut().zip(since_start) {
            sum.add(end.since(start));
        }
        self.sampled_ns += now_ns.saturating_sub(self.sample_start_ns);
    }

    /// Time that the programs add to one halt that waited: the halt program, its share of calls of
    /// grow and shrink, and one wake-up.
    pub(super) fn per_halt_ns(&self) -> Option<f64> {
        let of = |role: Role| self.sampled[role as usize];
        let halts = of(Role::Halt);
        if halts.count == 0 {
            return None;
        }
        let own = (halts.time_ns + of(Role::Window).time_ns) as f64 / halts.count as f64;
        let waking = of(Role::Waking);
        Some(own + waking.time_ns as f64 / waking.count.max(1) as f64)
    }

    /// Time that the programs add to one exit with its entry and what it was about. Where the kernel
    /// tells no exits, to one emulated instruction, which stands for an exit.
    pub(super) fn per_exit_ns(&self) -> Option<f64> {
        let roles = [Role::Exit, Role::Emulation, Role::AboutExits];
        let [exit, emulation, about] = roles.map(|role| self.sampled[role as usize]);
        let exits = exit.count.max(emulation.count);
        let all = exit.time_ns + emulation.time_ns + about.time_ns;
        (exits > 0).then(|| all as f64 / exits as f64)
    }

    /// CPU time of all programs: the samples, stretched to the time for which they were attached.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a product of non-negative numbers far below 2^63; the cast saturates"
    )]
    pub(super) fn total_ns(&self, now_ns: u64) -> Option<u64> {
        let attached_ns = self.attached_ns(now_ns) as f64;
        let sampled_ns: u64 = self.sampled.iter().map(|runs| runs.time_ns).sum();
        (self.sampled_ns > 0)
            .then(|| (sampled_ns as f64 * attached_ns / self.sampled_ns as f64) as u64)
    }
}

const BEGIN: u8 = 1;
const END: u8 = 0;

/// Has the kernel time programs. That takes `CAP_SYS_ADMIN`, which is everything: so a recorder has a child for it
/// that can do nothing else, and drops the right itself.
#[derive(Debug, Default)]
struct Timer {
    /// The kernel times programs as long as this is there.
    timing: Option<OwnedFd>,
    child: Option<(Child, ChildStdin)>,
}

impl Timer {
    fn hand_over(&mut self, root: &Root) -> io::Result<()> {
        let mut process = companion::command(root, companion::TIMER).spawn()?;
        let asks = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        self.child = Some((process, asks));
        Ok(())
    }

    /// Whether programs are timed from now on.
    fn begin(&mut self) -> bool {
        if let Some((_, asks)) = &mut self.child {
            return asks.write_all(&[BEGIN]).is_ok();
        }
        self.timing = start_timing();
        self.timing.is_some()
    }

    fn end(&mut self) {
        self.timing = None;
        if let Some((_, asks)) = &mut self.child {
            drop(asks.write_all(&[END]));
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some((process, _)) = &mut self.child {
            drop(process.kill());
            drop(process.wait());
        }
    }
}

/// The child: times programs between the bytes that stdin says so, until it ends.
pub(crate) fn serve_timing() -> io::Result<()> {
    sandbox::timer()?;
    let mut asks = io::stdin().lock();
    let mut byte = [END];
    let mut timing = None;
    while asks.read(&mut byte)? > 0 {
        let wanted = byte[0] == BEGIN;
        if wanted != timing.is_some() {
            timing = if wanted { start_timing() } else { None };
        }
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn programs_that_are_not_attached_take_nothing() {
        let mut cost = Cost {
            sampled_ns: 100,
            attached_since_ns: Some(1_000),
            ..Cost::default()
        };
        cost.sampled[0].time_ns = 5;
        assert_eq!(cost.total_ns(3_000), Some(100), "a twentieth of the time");
        cost.rest(3_000, &[]);
        assert_eq!(cost.total_ns(1_000_000), Some(100));
        cost.rest(1_000_000, &[]);
        cost.attached_since_ns = Some(2_000_000);
        assert_eq!(cost.total_ns(2_001_000), Some(150));
    }
}
