//! The monotonic clock, waiting for an instant on it, and where a thread runs and what it uses.
//!
//! All times of the lab are `CLOCK_MONOTONIC` in nanoseconds: the clock of KVM's own halt times and
//! of BPF's `bpf_ktime_get_ns`, so a recorder's times and the lab's compare without conversion.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;

use haltwise_core::units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::CpuSet;
use rustix::time::ClockId;

/// A sleep ends so long before its instant; the rest is spent reading the clock.
const SPIN_MARGIN_NS: u64 = 100_000;

fn read(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    u64::try_from(time.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

pub fn now_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// CPU time of the calling thread so far.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostWait {
    /// Keeps its CPU and looks again and again: exact, at the price of a CPU.
    Spin,
    /// Gives the CPU away until it is time, however late that makes it.
    #[default]
    Block,
    /// Sleeps for an answer, as a device's thread does for a kick, and is exact from then on.
    Device,
}

impl HostWait {
    /// Spins if one vCPU is to be woken and leaves the host another CPU, else blocks: drivers that
    /// spin on the vCPUs' own CPUs would cut their polling short.
    /// The price of blocking on the host we build on: gaps of 50 us came out as 66 us, against 50.1 us.
    pub fn suited_to(vcpus: u32) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if vcpus == 1 && cpus >= 2 {
            Self::Spin
        } else {
            Self::Block
        }
    }
}

/// Waits until `instant_ns`, or until `ending` becomes readable: then returns false.
pub fn wait_until(instant_ns: u64, how: HostWait, ending: &impl AsFd) -> io::Result<bool> {
    let margin = match how {
        HostWait::Spin | HostWait::Device => SPIN_MARGIN_NS,
        HostWait::Block => 0,
    };
    loop {
        let left = instant_ns.saturating_sub(now_ns());
        if left <= margin {
            break;
        }
        if wait_readable(ending, Some(Nanos(left - margin)))? {
            return Ok(false);
        }
    }
    while now_ns() < instant_ns {
        std::hint::spin_loop();
    }
    Ok(true)
}

/// Waits until a file is readable; false if the time ran out first.
pub fn wait_readable(file: &impl AsFd, timeout: Option<Nanos>) -> io::Result<bool> {
    Ok(wait_any([file.as_fd()], timeout)?[0])
}

/// Waits until one of some files is readable, and says which are.
pub fn wait_any<const N: usize>(
    files: [std::os::fd::BorrowedFd<'_>; N],
    timeout: Option<Nanos>,
) -> io::Result<[bool; N]> {
    let mut polled = files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
    let timeout = timeout.map(|t| Timespec {
        tv_sec: i64::try_from(t.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(t.0 % 1_000_000_000).unwrap_or(0),
    });
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let ready = |index: usize| polled[index].revents().contains(PollFlags::IN);
    Ok(std::array::from_fn(ready))
}

/// Makes the sleeps of the calling thread end when they should, not up to 50 us later.
pub fn sleep_exactly() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// The CPUs that the calling thread may use, in order.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Ok(allowed.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

pub fn pin(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    let index = cpu as usize;
    if index >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set.set(index);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches {
    pub voluntary: u64,
    /// Another task was given its CPU.
    pub involuntary: u64,
}

/// Resources that a thread has used so far, or between two readings: an account of waits that KVM has no part
/// in. A vCPU that waits is scheduled out of its own accord, so its voluntary switches bear independent
/// cross-check to the waits of the stats fd. A few more come from the VMM's own system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadUse {
    pub cpu_ns: u64,
    /// Context switches; `None` if `/proc` does not tell.
    pub switches: Option<Switches>,
}

impl ThreadUse {
    /// Resources that the calling thread has used so far.
    pub fn of_this_thread() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/thread-self/status")?;
        Ok(Self {
            cpu_ns: thread_cpu_ns(),
            switches: parse_switches(&status),
        })
    }

    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let switches = self.switches.zip(before.switches);
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            switches: switches.map(|(after, before)| Switches {
                voluntary: after.voluntary.saturating_sub(before.voluntary),
                involuntary: after.involuntary.saturating_sub(before.involuntary),
            }),
        }
    }
}

/// Finds the context switches in the text of a `/proc/…/status`.
fn parse_switches(status: &str) -> Option<Switches> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().parse().ok()
    };
    Some(Switches {
        voluntary: field("voluntary_ctxt_switches")?,
        involuntary: field("nonvoluntary_ctxt_switches")?,
    })
}

#[cfg(test)]
mod test {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn an_instant_is_never_left_early_and_an_end_is_seen() {
        let ending = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        for how in [HostWait::Spin, HostWait::Block] {
            let instant = now_ns() + 200_000;
            assert!(wait_until(instant, how, &ending).unwrap());
            assert!(now_ns() >= instant);
        }
        rustix::io::write(&ending, &1_u64.to_ne_bytes()).unwrap();
        let far = now_ns() + 3_600_000_000_000;
        assert!(!wait_until(far, HostWait::Block, &ending).unwrap());
    }

    #[test]
    fn both_kinds_are_found_and_neither_is_taken_for_the_other() {
        let text = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        let found = parse_switches(text).unwrap();
        assert_eq!((found.voluntary, found.involuntary), (150, 7));
        assert_eq!(parse_switches("voluntary_ctxt_switches:\t1\n"), None);
        assert_eq!(parse_switches(""), None);
    }
}
