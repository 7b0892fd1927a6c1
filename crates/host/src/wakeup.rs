//! Cost of sleeping and waking for a thread of this host, measured by two threads without a VM: a calibration where
//! no VMM is to be installed.
//!
//! One thread waits for the other's signals, once asleep on a futex and once looking for them all the time, for every
//! gap class, round and round, so that drift of the host meets both alike. Each repetition gives one value of every
//! cost.
//!
//! **Wake-up latency** of a repetition: median time from the signal to the sleeper's first instruction, asleep, minus
//! the same polled.
//!
//! **A wake-up from the sleeper's own CPU**: the same time, asleep, where both threads have one CPU. It need not leave idle.
//!
//! **CPU of a block and wake**: CPU time of a round asleep, minus that of a polled round without the time polled.
//!
//! A vCPU's sleep is the same `schedule()` and the same wake-up, and KVM's work around them on top: it takes the
//! vCPU's state off the CPU and puts it back. So these are the least that a vCPU's sleep costs.

pub mod prices;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use haltwise_core::replay::calibration::SCHEMA;
pub use haltwise_core::replay::calibration::written::Measured;
use haltwise_core::replay::calibration::written::{Samples, Sleeper, Written, of_repetitions};
use haltwise_core::stats::{median_estimate, percentile_of_sorted};
use haltwise_core::units::Nanos;
use rustix::thread::CpuSet;

use crate::cpus::pin;
use crate::root::Root;
use crate::{clock, host_sample, usage};

/// Rounds of a run that are looked at: as many as fit in this time, within bounds.
const RUN_NS: u64 = 40_000_000;
const MOST_ROUNDS: u64 = 200;
const FEWEST_ROUNDS: u64 = 5;

/// How long a waker that runs on the sleeper's CPU leaves it asleep.
const SAME_CPU_GAP: Nanos = Nanos(50_000);

/// A thread that had less of the time it polled was preempted: what it cost is not known.
const POLLED: f64 = 0.95;

#[derive(Debug, Clone)]
pub struct Plan {
    pub gaps: Vec<Nanos>,
    pub repetitions: u32,
    /// No repetition begins that would probably not end within this.
    pub budget: Nanos,
    pub sleeper_cpu: u32,
    pub waker_cpu: u32,
}

impl Plan {
    /// All classes in some 20 s, or a rough idea in a few.
    pub fn new(quick: bool, sleeper_cpu: u32, waker_cpu: u32) -> Self {
        let gaps_us: &[u64] = if quick {
            &[30, 100, 300, 1_000, 3_000, 10_000]
        } else {
            &[10, 30, 100, 300, 1_000, 3_000, 10_000, 20_000]
        };
        Self {
            gaps: gaps_us.iter().map(|us| Nanos(us * 1_000)).collect(),
            repetitions: if quick { 6 } else { 15 },
            budget: Nanos(if quick { 5 } else { 30 } * 1_000_000_000),
            sleeper_cpu,
            waker_cpu,
        }
    }
}

const WATCHED: Duration = Duration::from_millis(100);

/// Two CPUs that we may use and that were idle for longest just now: for the sleeper, and for its waker. With one CPU it is
/// both.
pub fn idlest_cpus(root: &Root) -> std::io::Result<[u32; 2]> {
    let before = host_sample::busy_of_each(root);
    thread::sleep(WATCHED);
    let after = host_sample::busy_of_each(root);
    let busy = |cpu: &u32| after.get(cpu)?.checked_sub(*before.get(cpu)?);
    let mut cpus = allowed_cpus()?;
    cpus.sort_by_key(|cpu| busy(cpu).unwrap_or(u64::MAX));
    let first = cpus.first().copied().ok_or(std::io::ErrorKind::NotFound)?;
    Ok([first, cpus.get(1).copied().unwrap_or(first)])
}

/// Facts that decide the price of a sleep here, as far as they can be read.
pub fn host(root: &Root) -> Measured {
    let name = rustix::system::uname();
    Measured {
        unix_ns: clock::wall_ns(),
        kernel_release: name.release().to_string_lossy().into_owned(),
        cpu_model: host_sample::cpu_model(root),
        idle: usage::idle_setup(root),
    }
}

pub fn allowed_cpus() -> std::io::Result<Vec<u32>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Ok(allowed.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

pub fn measure(plan: &Plan, is_over: impl Fn() -> bool) -> std::io::Result<Written> {
    let start_ns = clock::monotonic_ns();
    let mut classes = vec![Samples::default(); plan.gaps.len()];
    let mut same_cpu = Vec::new();
    let mut repetitions = 0;
    let elapsed_ns = || clock::monotonic_ns().saturating_sub(start_ns);
    let fits = |done: u64| done == 0 || elapsed_ns() / done * (done + 1) <= plan.budget.0;
    while repetitions < plan.repetitions && fits(repetitions.into()) && !is_over() {
        for (gap, samples) in plan.gaps.iter().zip(&mut classes) {
            let rounds = (RUN_NS / gap.0.max(1)).clamp(FEWEST_ROUNDS, MOST_ROUNDS);
            let run = |sleeps| {
                Pair {
                    gap: *gap,
                    rounds,
                    sleeps,
                    cpus: [plan.sleeper_cpu, plan.waker_cpu],
                }
                .run()
            };
            add(samples, &run(true)?, &run(false)?);
        }
        let one_cpu = Pair {
            gap: SAME_CPU_GAP,
            rounds: MOST_ROUNDS,
            sleeps: true,
            cpus: [plan.sleeper_cpu; 2],
        };
        same_cpu.extend(median(&one_cpu.run()?, |round| round.latency_ns));
        repetitions += 1;
    }
    Ok(Written {
        schema: SCHEMA,
        sleeper: Sleeper::Thread,
        vcpu_cpu: plan.sleeper_cpu,
        host_cpu: plan.waker_cpu,
        repetitions,
        elapsed_ns: elapsed_ns(),
        classes: (plan.gaps.iter().zip(&classes))
            .map(|(gap, samples)| samples.estimate(gap.0))
            .collect(),
        same_cpu_wake_latency_ns: median_estimate(&same_cpu),
        switch_cpu_ns: Samples::over(&classes, |samples| &samples.switch_cpu),
        waker_cpu_ns: Samples::over(&classes, |samples| &samples.waker_cpu),
        notes: notes(plan, repetitions, &classes),
        ..Written::default()
    })
}

/// Takes the values of a repetition. A polling thread that was preempted gives none.
fn add(samples: &mut Samples, asleep: &[Round], polled: &[Round]) {
    let latency = |run: &[Round]| median(run, |round| round.latency_ns);
    let waking = |run: &[Round]| median(run, |round| round.waking_ns);
    samples.blocked.extend(latency(asleep));
    let polled_ns = polled
        .iter()
        .map(|round| round.latency_ns)
        .min()
        .unwrap_or(0);
    let longer = asleep
        .iter()
        .map(|round| round.latency_ns.saturating_sub(polled_ns));
    samples.single_ns.extend(longer);
    let sum = |run: &[Round], of: fn(&Round) -> u64| run.iter().map(of).sum::<u64>() as f64;
    let cpu = sum(polled, |round| round.cpu_ns);
    let poll = sum(polled, |round| round.poll_ns);
    if polled.is_empty() || cpu < POLLED * poll {
        return;
    }
    let rest = (cpu - poll).max(0.0) / polled.len() as f64;
    samples.polled.extend(latency(polled));
    let differ = |a: Option<f64>, b: Option<f64>| Some(a? - b?);
    samples
        .latency
        .extend(differ(latency(asleep), latency(polled)));
    samples
        .waker_cpu
        .extend(differ(waking(asleep), waking(polled)));
    let asleep_cpu = median(asleep, |round| round.cpu_ns);
    samples.switch_cpu.extend(differ(asleep_cpu, Some(rest)));
}

fn median(run: &[Round], of: fn(&Round) -> u64) -> Option<f64> {
    let mut times: Vec<u64> = run.iter().map(of).collect();
    times.sort_unstable();
    percentile_of_sorted(&times, 0.5).map(|ns| ns as f64)
}

fn notes(plan: &Plan, repetitions: u32, classes: &[Samples]) -> Vec<String> {
    let mut notes = of_repetitions(repetitions, plan.repetitions);
    if plan.sleeper_cpu == plan.waker_cpu {
        notes.push("both threads share a CPU: nothing can be polled for".to_owned());
    }
    let polled: usize = classes.iter().map(|samples| samples.latency.len()).sum();
    let wanted = repetitions as usize * classes.len();
    if polled < wanted {
        notes.push(format!(
            "{} of {wanted} polled runs were preempted: other tasks wanted CPU {}",
            wanted - polled,
            plan.sleeper_cpu
        ));
    }
    notes
}

/// First rounds are not looked at: caches are cold, and the threads may just have come to their CPUs.
const WARM_UP: u64 = 8;

/// A sleep of the waker ends so long before its instant; the rest is spent reading the clock.
const SPIN_MARGIN_NS: u64 = 200_000;

pub(super) struct Pair {
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

#[cfg(test)]
mod test {
    use super::*;

    fn round(latency_ns: u64, cpu_ns: u64, poll_ns: u64) -> Round {
        Round {
            latency_ns,
            waking_ns: 100,
            cpu_ns,
            poll_ns,
        }
    }

    #[test]
    fn what_sleeping_adds_is_the_difference_of_both_ways() {
        let mut samples = Samples::default();
        let (asleep, polled) = ([round(9_000, 4_000, 0); 5], [round(200, 30_500, 30_000); 5]);
        add(&mut samples, &asleep, &polled);
        assert_eq!(samples.latency, [8_800.0]);
        assert_eq!(samples.switch_cpu, [3_500.0]);
        assert_eq!(samples.waker_cpu, [0.0]);
    }

    #[test]
    fn a_poll_that_was_preempted_gives_no_price() {
        let mut samples = Samples::default();
        let (asleep, polled) = ([round(9_000, 4_000, 0); 5], [round(200, 15_000, 30_000); 5]);
        add(&mut samples, &asleep, &polled);
        assert_eq!((samples.blocked.len(), samples.latency.len()), (1, 0));
        assert!(samples.switch_cpu.is_empty());
        let plan = Plan::new(true, 1, 0);
        let notes = notes(&plan, 1, &[samples]);
        assert!(notes.iter().any(|it| it.contains("preempted")), "{notes:?}");
    }

    #[test]
    fn two_threads_measure_every_class() {
        let cpus = allowed_cpus().unwrap();
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        let plan = Plan {
            gaps: vec![Nanos(30_000), Nanos(300_000)],
            repetitions: 1,
            ..Plan::new(true, last, first)
        };
        let found = measure(&plan, || false).unwrap();
        assert_eq!((found.repetitions, found.classes.len()), (1, 2));
        let woke = found.classes.iter().map(|it| it.signal_to_guest_blocked_ns);
        assert!(woke.flatten().all(|latency| latency.median > 0.0));
        assert!((found.same_cpu_wake_latency_ns).is_some_and(|it| it.median > 0.0));
    }
}
