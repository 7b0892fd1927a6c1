//! Prices that tuning a guest's governor needs and only the guest itself can measure: those of an exit, of a write of
//! the timer, and of an IPI.
//!
//! Each repetition does both of a pair in turn, and gives one value: the difference of their medians. A price is the
//! median of these with its interval, as all costs are. One whose interval reaches 0 was not measured.

mod ipi;
mod signal;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__cpuid_count;
use std::hint::black_box;
use std::path::Path;
use std::{io, thread};

use haltwise_core::replay::calibration::written::Written;
use haltwise_core::stats::{Estimate, median_estimate};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::{Plan, joined};
use crate::clock;
use crate::cpus::pin;

const REPETITIONS: usize = 31;

type Priced = Result<Estimate, String>;

pub fn add(found: &mut Written, plan: &Plan) {
    let why_not = match is_guest() {
        Some(true) => return put(found, measured(plan)),
        Some(false) => {
            "exits, timer writes and IPIs have no price here: CPUID reports no hypervisor, so that this machine is not a \
             guest"
        }
        None => "exits, timer writes and IPIs are measured in guests on x86_64 only",
    };
    found.notes.push(why_not.to_owned());
}

fn measured(plan: &Plan) -> [Priced; 3] {
    [
        exit_price(plan.sleeper_cpu),
        timer_price(plan.sleeper_cpu),
        ipi::price(plan.waker_cpu, plan.sleeper_cpu),
    ]
}

fn put(found: &mut Written, [exit, timer_write, ipi]: [Priced; 3]) {
    let mut take = |what: &str, priced: Priced| match priced {
        Ok(price) => Some(price),
        Err(reason) => {
            let text = format!("the price of {what} was not measured: {reason}");
            found.notes.push(text);
            None
        }
    };
    let (exit, timer_write, ipi) = (
        take("an exit", exit),
        take("a timer write", timer_write),
        take("an IPI", ipi),
    );
    found.exit_cpu_ns = exit;
    found.timer_write_cpu_ns = timer_write;
    found.ipi_cpu_ns = ipi;
}

/// The values of repetitions on a CPU, in a thread of its own. The first is not looked at: caches are cold.
fn repeated(
    cpu: u32,
    repetition: impl Fn() -> io::Result<Option<f64>> + Sync,
) -> Result<Vec<f64>, String> {
    let values = thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            pin(cpu)?;
            let values = (0..=REPETITIONS).map(|_| repetition()).skip(1);
            values.collect::<io::Result<Vec<_>>>()
        });
        joined(measuring)
    });
    let values = values.map_err(|error| failed(&error))?;
    Ok(values.into_iter().flatten().collect())
}

fn of_differences(differences: &[f64]) -> Priced {
    let Some(price) = median_estimate(differences) else {
        return Err("no repetition gave a value".to_owned());
    };
    if price.low <= 0.0 {
        return Err(format!(
            "the difference is within noise, {:.0} ns to {:.0} ns",
            price.low, price.high
        ));
    }
    Ok(price)
}

fn difference(with: &[u64], without: &[u64], parts: f64) -> Option<f64> {
    Some((middle(with)? - middle(without)?) / parts)
}

fn middle(times: &[u64]) -> Option<f64> {
    let times: Vec<f64> = times.iter().map(|ns| *ns as f64).collect();
    median_estimate(&times).map(|estimate| estimate.median)
}

fn failed(error: &io::Error) -> String {
    format!("the system refused: {error}")
}

const BATCHES: usize = 16;
const BATCH: u32 = 32;

/// Devices of guests whose memory is encrypted: there CPUID is an exception of the guest's own, and what answers it
/// need not be the hypervisor.
const CONFIDENTIAL: [&str; 2] = [
    "/sys/devices/virtual/misc/sev-guest",
    "/sys/devices/virtual/misc/tdx_guest",
];

/// Whether this is a guest, by the bit that only hypervisors set (CPUID.1:ECX, bit 31); `None` on other architectures.
#[cfg(target_arch = "x86_64")]
#[expect(clippy::unnecessary_wraps, reason = "others do not say")]
fn is_guest() -> Option<bool> {
    Some(__cpuid_count(1, 0).ecx >> 31 == 1)
}

#[cfg(not(target_arch = "x86_64"))]
fn is_guest() -> Option<bool> {
    None
}

/// The price of an exit: CPUID, less an empty loop.
///
/// CPUID exits to the hypervisor whatever that has configured under VT-x ("Instructions That Cause VM Exits
/// Unconditionally", Intel SDM volume 3C), and under SVM wherever KVM runs (`INTERCEPT_CPUID` in `init_vmcb()`,
/// `arch/x86/kvm/svm/svm.c`). KVM answers it by itself, without its VMM. The price is the time in which the guest did
/// not run its own code, from the last instruction before to the first after; what CPUID takes on bare metal, some
/// tens of nanoseconds, is part of it.
fn exit_price(cpu: u32) -> Priced {
    if CONFIDENTIAL.iter().any(|path| Path::new(path).exists()) {
        return Err("in a confidential guest CPUID need not exit".to_owned());
    }
    of_differences(&repeated(cpu, || Ok(exits()))?)
}

fn exits() -> Option<f64> {
    let (mut with, mut without) = (Vec::with_capacity(BATCHES), Vec::with_capacity(BATCHES));
    for _ in 0..BATCHES {
        with.push(timed(exit));
        without.push(timed(nothing));
    }
    difference(&with, &without, BATCH.into())
}

fn timed(of: fn(u32)) -> u64 {
    let before_ns = clock::monotonic_ns();
    for nth in 0..BATCH {
        black_box(of)(nth);
    }
    clock::monotonic_ns().saturating_sub(before_ns)
}

#[cfg(target_arch = "x86_64")]
fn exit(_: u32) {
    black_box(__cpuid_count(0, 0));
}

#[cfg(not(target_arch = "x86_64"))]
fn exit(_: u32) {}

fn nothing(nth: u32) {
    black_box(nth);
}

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

/// The price of a write of the timer: one that is armed 100 us ahead and disarmed, less one that is armed an hour ahead
/// and disarmed, by two.
///
/// The kernel writes a CPU's clock event device (`TSC_DEADLINE` of the local APIC, where `current_device` below
/// `/sys/devices/system/clockevents` is `lapic-deadline`) where a timer becomes the next of its CPU
/// (`hrtimer_reprogram()`), and where the next one is removed (`__remove_hrtimer()`, `hrtimer_force_reprogram()`,
/// both in `kernel/time/hrtimer.c`); for a timer that others come before it writes nothing. So the near one makes two
/// writes, and the far one none. Both make the same system calls. The search for the timer that is next after the one
/// removed is part of the price.
///
/// A thread that runs has its CPU's tick, which is at most 10 ms ahead: now and then it is nearer than the near timer.
/// Medians leave that out.
fn timer_price(cpu: u32) -> Priced {
    let values = repeated(cpu, timer_writes)?;
    of_differences(&values).map_err(|reason| {
        format!("{reason}, as where timers go to another CPU or their resolution is the tick's")
    })
}

fn timer_writes() -> io::Result<Option<f64>> {
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

#[cfg(test)]
mod test {
    use haltwise_core::units::Nanos;

    use super::super::measure;
    use super::*;

    #[test]
    fn a_price_is_the_median_of_differences_and_none_within_noise() {
        let all: Vec<f64> = (1..=31).map(|it| 1_000.0 + f64::from(it)).collect();
        let price = of_differences(&all).unwrap();
        assert_eq!((price.median, price.samples), (1_016.0, 31));
        assert!(price.low > 1_000.0 && price.high < 1_032.0);
        let noise: Vec<f64> = (-15..=15).map(f64::from).collect();
        let reason = of_differences(&noise).unwrap_err();
        assert!(reason.contains("within noise, -6 ns to 6 ns"), "{reason}");
        assert!(of_differences(&[]).is_err());
    }

    #[test]
    fn what_was_not_measured_is_null_and_a_note() {
        let plan = Plan {
            gaps: vec![Nanos(30_000)],
            repetitions: 1,
            ..Plan::new(true, 0, 0)
        };
        let mut found = measure(&plan, || true).unwrap();
        let before = found.notes.len();
        let price = of_differences(&[1_500.0; 9]);
        put(
            &mut found,
            [price, Err("noise".to_owned()), Err("one CPU".to_owned())],
        );
        assert_eq!(found.exit_cpu_ns.map(|it| it.median), Some(1_500.0));
        assert_eq!((found.timer_write_cpu_ns, found.ipi_cpu_ns), (None, None));
        assert_eq!(
            found.notes[before..],
            [
                "the price of a timer write was not measured: noise",
                "the price of an IPI was not measured: one CPU"
            ]
        );
    }

    #[test]
    fn each_price_here_is_positive_or_has_a_reason() {
        let cpus = super::super::allowed_cpus().unwrap();
        let plan = Plan::new(true, cpus[cpus.len() - 1], cpus[0]);
        for priced in measured(&plan) {
            match priced {
                Ok(price) => assert!(price.low > 0.0),
                Err(reason) => assert!(!reason.is_empty()),
            }
        }
        let reason = ipi::price(cpus[0], cpus[0]).unwrap_err();
        assert!(reason.contains("one CPU"), "{reason}");
    }
}
