//! The two threads: one waits, the other signals.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use haltwise_core::units::Nanos;

use crate::clock;
use crate::cpus::pin;

/// First rounds are not looked at: caches are cold, and the threads may just have come to their CPUs.
const WARM_UP: u64 = 8;

/// A sleep of the waker ends so long before its instant; the rest is spent reading the clock.
const SPIN_MARGIN_NS: u64 = 200_000;

pub(super) struct Pair {
    /// From an answer to the next signal.
    pub(super) gap: Nanos,
    pub(super) rounds: u64,
    /// Whether the sleeper sleeps, or looks for the signal all the time.
    pub(super) sleeps: bool,
    pub(super) cpus: [u32; 2],
}

#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "units are in the names")]
pub(super) struct Round {
    /// From the signal to the sleeper's first instruction.
    pub(super) latency_ns: u64,
    pub(super) waking_ns: u64,
    pub(super) cpu_ns: u64,
    /// Polling time of a sleeper that polls.
    pub(super) poll_ns: u64,
}

#[expect(clippy::struct_field_names, reason = "units are in the names")]
struct Woken {
    at_ns: u64,
    cpu_ns: u64,
    poll_ns: u64,
}

/// Rounds by number: the last that was signalled, and the last that was answered.
#[derive(Default)]
struct Line {
    signal: AtomicU64,
    answer: AtomicU64,
}

impl Pair {
    pub(super) fn run(&self) -> io::Result<Vec<Round>> {
        let line = Line::default();
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| self.sleep(&line));
            let woken = sleeper.thread().clone();
            let line = &line;
            let waker = scope.spawn(move || self.wake(line, &woken));
            let (sent, woken) = (joined(waker), joined(sleeper));
            Ok(rounds(&sent?, &woken?))
        })
    }

    fn sleep(&self, line: &Line) -> io::Result<Vec<Woken>> {
        // A sleeper that could not be pinned answers all the same: the waker waits for it.
        let pinned = pin(self.cpus[0]);
        let mut woken = Vec::with_capacity(usize::try_from(self.rounds + WARM_UP).unwrap_or(0));
        let mut cpu_ns = clock::thread_cpu_ns();
        for round in 1..=self.rounds + WARM_UP {
            let began_ns = clock::monotonic_ns();
            while line.signal.load(Ordering::Acquire) < round {
                if self.sleeps {
                    thread::park();
                } else {
                    std::hint::spin_loop();
                }
            }
            let at_ns = clock::monotonic_ns();
            let before_ns = std::mem::replace(&mut cpu_ns, clock::thread_cpu_ns());
            woken.push(Woken {
                at_ns,
                cpu_ns: cpu_ns.saturating_sub(before_ns),
                poll_ns: at_ns.saturating_sub(began_ns),
            });
            line.answer.store(round, Ordering::Release);
        }
        pinned.map(|()| woken)
    }

    /// Signals after every gap; says when, and when it was done with that.
    fn wake(&self, line: &Line, sleeper: &thread::Thread) -> io::Result<Vec<[u64; 2]>> {
        let pinned = pin(self.cpus[1]);
        let mut sent = Vec::with_capacity(usize::try_from(self.rounds + WARM_UP).unwrap_or(0));
        for round in 1..=self.rounds + WARM_UP {
            let until_ns = clock::monotonic_ns().saturating_add(self.gap.0);
            if self.gap.0 > SPIN_MARGIN_NS {
                thread::sleep(Duration::from_nanos(self.gap.0 - SPIN_MARGIN_NS));
            }
            while clock::monotonic_ns() < until_ns {
                std::hint::spin_loop();
            }
            let at_ns = clock::monotonic_ns();
            line.signal.store(round, Ordering::Release);
            if self.sleeps {
                sleeper.unpark();
            }
            sent.push([at_ns, clock::monotonic_ns()]);
            while line.answer.load(Ordering::Acquire) < round {
                // Where both have one CPU, the other must run.
                if self.cpus[0] == self.cpus[1] {
                    thread::yield_now();
                } else {
                    std::hint::spin_loop();
                }
            }
        }
        pinned.map(|()| sent)
    }
}

fn rounds(sent: &[[u64; 2]], woken: &[Woken]) -> Vec<Round> {
    let warm_up = usize::try_from(WARM_UP).unwrap_or(0);
    let all = sent.iter().zip(woken).skip(warm_up);
    all.map(|([at_ns, done_ns], woken)| Round {
        latency_ns: woken.at_ns.saturating_sub(*at_ns),
        waking_ns: done_ns.saturating_sub(*at_ns),
        cpu_ns: woken.cpu_ns,
        poll_ns: woken.poll_ns,
    })
    .collect()
}

pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    let panicked = |_| Err(io::ErrorKind::Other.into());
    thread.join().unwrap_or_else(panicked)
}
