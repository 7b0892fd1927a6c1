//! The price of a write of the timer: one that is armed 100 us ahead and disarmed, less one that is armed an hour ahead
//! and disarmed, by two.
//!
//! The kernel writes a CPU's clock event device (`TSC_DEADLINE` of the local APIC, where `current_device` below
//! `/sys/devices/system/clockevents` is `lapic-deadline`) where a timer becomes the next of its CPU
//! (`hrtimer_reprogram()`), and where the next one is removed (`__remove_hrtimer()`, `hrtimer_force_reprogram()`,
//! both in `kernel/time/hrtimer.c`); for a timer that others come before it writes nothing. So the near one makes two
//! writes, and the far one none. Both make the same system calls. The search for the timer that is next after the one
//! removed is part of the price.
//!
//! A thread that runs has its CPU's tick, which is at most 10 ms ahead: now and then it is nearer than the near timer.
//! Medians leave that out.

use std::io;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::{Priced, difference, of_differences, repeated};
use crate::clock;

const PAIRS: usize = 128;
const WRITES: f64 = 2.0;
/// Nearer than the tick, and later than both calls take.
const NEAR: Itimerspec = in_time(0, 100_000);
const FAR: Itimerspec = in_time(3_600, 0);
const DISARMED: Itimerspec = in_time(0, 0);

const fn in_time(seconds: i64, nanoseconds: i64) -> Itimerspec {
    Itimerspec {
        it_interval: Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds,
        },
    }
}

pub(super) fn price(cpu: u32) -> Priced {
    let values = repeated(cpu, repetition)?;
    of_differences(&values).map_err(|reason| {
        format!("{reason}, as where timers go to another CPU or their resolution is the tick's")
    })
}

fn repetition() -> io::Result<Option<f64>> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let took = |when: &Itimerspec| -> io::Result<u64> {
        let before_ns = clock::monotonic_ns();
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), when)?;
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &DISARMED)?;
        Ok(clock::monotonic_ns().saturating_sub(before_ns))
    };
    let (mut near, mut far) = (Vec::with_capacity(PAIRS), Vec::with_capacity(PAIRS));
    for _ in 0..PAIRS {
        near.push(took(&NEAR)?);
        far.push(took(&FAR)?);
    }
    Ok(difference(&near, &far, WRITES))
}
