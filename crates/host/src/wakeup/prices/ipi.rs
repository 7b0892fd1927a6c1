//! The price of an IPI, as its sender pays it: a signal to a thread that runs on the other CPU, less the same signal
//! to that thread while it has blocked it.
//!
//! A signal to a thread that runs makes the kernel send its CPU the IPI of the scheduler, and wait for nothing
//! (`signal_wake_up_state()` and `kick_process()`, `kernel/signal.c` and `kernel/sched/core.c`). That is the IPI that a
//! wake-up sends, too. One that is blocked is queued alike, and sends none (`wants_signal()`, signal(7)). The
//! difference has the write of the interrupt command, which exits unless the CPU delivers IPIs by itself, and some tens
//! of nanoseconds of the look at the thread's state. The receiver's interrupt is not in it, nor is what the sender's
//! exit takes longer where the receiver's vCPU sleeps and its host has to wake its thread.
//!
//! membarrier(2) sends such IPIs, too, but waits until all are acknowledged: that would be the price of both sides.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread;

use rustix::thread::Pid;

use super::super::joined;
use super::signal::{self, Handled};
use super::{Priced, REPETITIONS, difference, failed, of_differences};
use crate::clock;
use crate::cpus::pin;

const SIGNALS: usize = 64;
/// All that are sent; those of the first repetition are not looked at.
const ROUNDS: u64 = 2 * SIGNALS as u64 * (REPETITIONS as u64 + 1);

/// Rounds by number: the last that the receiver is ready for, and the last that was sent.
#[derive(Default)]
struct Line {
    receiver: AtomicI32,
    ready: AtomicU64,
    sent: AtomicU64,
}

pub(super) fn price(sender: u32, receiver: u32) -> Priced {
    if sender == receiver {
        return Err("both threads have one CPU".to_owned());
    }
    let times = times(sender, receiver).map_err(|error| failed(&error))?;
    let values: Vec<f64> = times
        .chunks(2 * SIGNALS)
        .skip(1)
        .filter_map(of_repetition)
        .collect();
    of_differences(&values)
}

fn is_open(round: u64) -> bool {
    round % 2 == 1
}

/// The first of a repetition is that of an odd round.
fn of_repetition(times: &[u64]) -> Option<f64> {
    let every_other = |first: usize| -> Vec<u64> {
        let times = times.iter().skip(first).step_by(2);
        times.copied().collect()
    };
    difference(&every_other(0), &every_other(1), 1.0)
}

fn times(sender: u32, receiver: u32) -> io::Result<Vec<u64>> {
    let handled = Handled::install()?;
    let line = Line::default();
    let times = thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(receiver, &line));
        let sending = scope.spawn(|| send(sender, &line));
        let times = joined(sending);
        joined(receiving).and(times)
    });
    drop(handled);
    times
}

/// Runs all the time, so that its CPU gets an IPI for each signal that it has not blocked.
fn receive(cpu: u32, line: &Line) -> io::Result<()> {
    // A receiver that failed goes on all the same: the sender waits for it.
    let mut done = pin(cpu);
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    line.receiver.store(own, Ordering::Release);
    for round in 1..=ROUNDS {
        done = done.and(signal::block(!is_open(round)));
        line.ready.store(round, Ordering::Release);
        while line.sent.load(Ordering::Acquire) < round {
            std::hint::spin_loop();
        }
        signal::drain();
    }
    done
}

fn send(cpu: u32, line: &Line) -> io::Result<Vec<u64>> {
    let mut done = pin(cpu);
    let mut times = Vec::with_capacity(usize::try_from(ROUNDS).unwrap_or(0));
    for round in 1..=ROUNDS {
        while line.ready.load(Ordering::Acquire) < round {
            std::hint::spin_loop();
        }
        let receiver = Pid::from_raw(line.receiver.load(Ordering::Acquire));
        let before_ns = clock::monotonic_ns();
        let sent = receiver.map_or(Ok(()), signal::send);
        times.push(clock::monotonic_ns().saturating_sub(before_ns));
        done = done.and(sent);
        line.sent.store(round, Ordering::Release);
    }
    done.map(|()| times)
}
