//! The one place that asks for the time.

use haltwise_core::account::within::TICK_NS;
use rustix::time::{ClockId, clock_gettime};

/// Now, on the clock that KVM and BPF measure by: `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Now, as nanoseconds since 1970: `CLOCK_REALTIME`.
pub fn wall_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// A time in clock ticks since boot, as `/proc/PID/stat` tells it, on the clock of [`monotonic_ns`], which
/// does not count the time in which the machine was suspended.
pub fn of_ticks(ticks: u64) -> u64 {
    let since_boot = nanoseconds(clock_gettime(ClockId::Boottime));
    let suspended = since_boot.saturating_sub(monotonic_ns());
    ticks.saturating_mul(TICK_NS).saturating_sub(suspended)
}

pub(crate) fn ticks_long(ticks: u64) -> u64 {
    ticks.saturating_mul(TICK_NS)
}

pub fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

pub fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

fn nanoseconds(time: rustix::time::Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}
