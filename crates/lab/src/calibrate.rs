//! Costs of halting on this host: wake-up latency by length of sleep, CPU of one block and wake,
//! a polled HLT round trip.
//!
//! `pingpong-stamped` runs once with polling off (cap 0) and once always polled (a cap that no gap
//! exceeds), for every gap class, round and round, so that drift of the host meets both alike. Each
//! repetition gives one value of every cost; what is reported is their median with its 95 % interval.
//!
//! **Wake-up latency** of a repetition: median time from the host's signal to the guest's first
//! instruction, blocked, minus the same polled. Raising the line, injecting the interrupt and
//! entering the guest take part in both and cancel out, but for caches that went cold.
//!
//! **`switch_cpu`**: with N halts of which w waited, a vCPU thread uses
//! `C = N x base + w x switch_cpu + polling time`. KVM's statistics give w and the polling time of both
//! runs, so
//!
//! ```text
//!               (C0 - poll0) / N0  -  (C1 - poll1) / N1
//! switch_cpu =  ---------------------------------------      0: blocked, 1: polled
//!                       w0 / N0  -  w1 / N1
//! ```
//! Halts that waited although they should have polled (the window grows at first; other tasks cut
//! polls) do no harm. Biases: KVM's polling time leaves out the clock reads around the loop,
//! which makes this too small by some 0.1 us; the CPU that the *waker* spends is not in it and
//! is given as `waker_cpu`; what the idle CPU spends on going to sleep and waking is in neither.
//!
//! **`exit_cpu`**: CPU time of the vCPU's thread for one CPUID, which KVM handles by itself, guest and entry
//! included. It is the least that an exit on HLT costs: KVM does more on that one before it polls or sleeps,
//! and an IPI's sender exits likewise, where the CPU does not deliver IPIs by itself.

use std::os::fd::AsFd;

use haltwise_core::replay::calibration::SCHEMA;
use haltwise_core::replay::calibration::written::{Samples, Sleeper, Written, of_repetitions};
use haltwise_core::stats::{median_estimate, percentile_of_sorted};
use haltwise_core::units::{HaltPollNs, Nanos};
use haltwise_core::workload::GapSpec;

use crate::clock::{self, HostWait};
use crate::drive::{Round, VcpuRounds};
use crate::guest::storm::CPUIDS;
use crate::guest::{Guest, Stamps};
use crate::load::{Length, Load};
use crate::outcome::{EndedBy, VcpuOutcome};
use crate::run::{Finished, run};

/// Rounds in which the window grows; not looked at.
const WARM_UP: usize = 16;
/// Rounds of a run that are looked at: as many as fit in this time, within bounds.
const RUN_NS: u64 = 60_000_000;
const MOST_ROUNDS: u64 = 200;
const FEWEST_ROUNDS: u64 = 5;
/// Share of successful polls below which a run was not polled.
const POLLED: f64 = 0.75;
/// Ceilings under which KVM never polls, and polls through every gap.
const NEVER: HaltPollNs = HaltPollNs(0);
const ALWAYS: HaltPollNs = HaltPollNs(u32::MAX / 2);
const ROUND_TRIP_GAP: Nanos = Nanos(50_000);

/// Rounds of CPUIDs in a repetition: some milliseconds, a hundred where each is emulated.
const EXIT_ROUNDS: u32 = 5;

#[derive(Debug, Clone)]
pub struct Plan {
    pub gaps: Vec<Nanos>,
    /// How often, if time allows.
    pub repetitions: u32,
    /// No repetition begins that would probably not end within this.
    pub budget: Nanos,
    pub vcpu_cpu: u32,
    /// CPU of the host's thread; the guest can only be polled for if it is another one.
    pub host_cpu: u32,
}

impl Plan {
    /// All classes in some 40 s, or a rough idea in a few.
    pub fn new(quick: bool, vcpu_cpu: u32, host_cpu: u32) -> Self {
        let gaps_us: &[u64] = if quick {
            &[30, 300, 3_000]
        } else {
            &[10, 30, 100, 300, 1_000, 3_000, 10_000, 20_000]
        };
        Self {
            gaps: gaps_us.iter().map(|us| Nanos(us * 1_000)).collect(),
            repetitions: if quick { 6 } else { 15 },
            budget: Nanos(if quick { 9 } else { 55 } * 1_000_000_000),
            vcpu_cpu,
            host_cpu,
        }
    }

    fn load(&self, guest: Guest, rounds: u32) -> Load {
        let mut load = Load::new(guest);
        load.length = Length::Rounds(rounds);
        load.vcpu_cpus = vec![self.vcpu_cpu];
        load.host_cpu = Some(self.host_cpu);
        "calibrate".clone_into(&mut load.name);
        load
    }
}

/// Measures. `progress` hears how many of how many repetitions are done.
pub fn calibrate(
    plan: &Plan,
    interrupt: &impl AsFd,
    mut progress: impl FnMut(u32, u32),
) -> anyhow::Result<Written> {
    let start_ns = clock::now_ns();
    let mut classes = vec![Samples::default(); plan.gaps.len()];
    let (mut round_trips, mut exits) = (Vec::new(), Vec::new());
    let mut repetitions = 0;
    let elapsed_ns = || clock::now_ns().saturating_sub(start_ns);
    let fits = |done: u64| done == 0 || elapsed_ns() / done * (done + 1) <= plan.budget.0;
    'all: while repetitions < plan.repetitions && fits(repetitions.into()) {
        progress(repetitions, plan.repetitions);
        for (gap, samples) in plan.gaps.iter().zip(&mut classes) {
            let measure = |ceiling| measure(plan, *gap, Stamps::Woke, ceiling, interrupt);
            let Some(blocked) = measure(NEVER)? else {
                break 'all;
            };
            let Some(polled) = measure(ALWAYS)? else {
                break 'all;
            };
            add(samples, &blocked, &polled);
        }
        let unstamped = measure(plan, ROUND_TRIP_GAP, Stamps::None, ALWAYS, interrupt)?;
        let Some(unstamped) = unstamped else { break };
        if unstamped.was_polled() {
            round_trips.extend(unstamped.median(Round::round_trip_ns));
        }
        let Some(exit) = exit_cpu(plan, interrupt)? else {
            break;
        };
        exits.push(exit);
        repetitions += 1;
    }
    progress(repetitions, plan.repetitions);
    Ok(Written {
        schema: SCHEMA,
        sleeper: Sleeper::Vcpu,
        vcpu_cpu: plan.vcpu_cpu,
        host_cpu: plan.host_cpu,
        repetitions,
        elapsed_ns: elapsed_ns(),
        classes: plan
            .gaps
            .iter()
            .zip(&classes)
            .map(|(gap, s)| s.estimate(gap.0))
            .collect(),
        switch_cpu_ns: Samples::over(&classes, |samples| &samples.switch_cpu),
        waker_cpu_ns: Samples::over(&classes, |samples| &samples.waker_cpu),
        exit_cpu_ns: median_estimate(&exits),
        polled_round_trip_ns: median_estimate(&round_trips),
        notes: notes(plan, repetitions, &classes),
        ..Written::default()
    })
}

fn notes(plan: &Plan, repetitions: u32, classes: &[Samples]) -> Vec<String> {
    let mut notes = of_repetitions(repetitions, plan.repetitions);
    if plan.vcpu_cpu == plan.host_cpu {
        notes.push("vCPU and host share a CPU: nothing can be polled for".to_owned());
    }
    let polled: usize = classes.iter().map(|samples| samples.latency.len()).sum();
    let wanted = repetitions as usize * classes.len();
    if polled < wanted {
        notes.push(format!(
            "{} of {wanted} polled runs were not polled enough: other tasks wanted CPU {}",
            wanted - polled,
            plan.vcpu_cpu
        ));
    }
    notes
}

fn add(to: &mut Samples, blocked: &Measured, polled: &Measured) {
    let signal_cost = |run: &Measured| run.median(Round::signal_cost_ns);
    let latency = |run: &Measured| median(run.rounds.wake_latencies_ns());
    to.blocked.extend(latency(blocked));
    to.switch_cpu
        .extend(switch_cpu(&blocked.vcpu, &polled.vcpu));
    if polled.was_polled() {
        to.polled.extend(latency(polled));
        let both = latency(blocked).zip(latency(polled));
        to.latency
            .extend(both.map(|(blocked, polled)| blocked - polled));
        let both = signal_cost(blocked).zip(signal_cost(polled));
        to.waker_cpu
            .extend(both.map(|(blocked, polled)| blocked - polled));
    }
}

/// The estimator of the module's text; `None` if both runs waited about as often, or the kernel
/// does not tell.
fn switch_cpu(blocked: &VcpuOutcome, polled: &VcpuOutcome) -> Option<f64> {
    let per_halt = |vcpu: &VcpuOutcome| {
        let poll = vcpu.stat("halt_poll_success_ns")?;
        let poll = poll.checked_add(vcpu.stat("halt_poll_fail_ns")?)?;
        let halts = vcpu.halts.max(1) as f64;
        let busy = vcpu.cpu_ns as f64 - poll as f64;
        Some((busy / halts, vcpu.waits()? as f64 / halts))
    };
    let ((busy0, waits0), (busy1, waits1)) = (per_halt(blocked)?, per_halt(polled)?);
    (waits0 - waits1 >= 0.5).then(|| (busy0 - busy1) / (waits0 - waits1))
}

/// One run, without its warm-up.
struct Measured {
    vcpu: VcpuOutcome,
    rounds: VcpuRounds,
}

impl Measured {
    fn was_polled(&self) -> bool {
        let polls = self.vcpu.stat("halt_successful_poll").unwrap_or(0);
        // The window's growth costs a dozen halts of a short run.
        let halts = self.vcpu.halts.saturating_sub(WARM_UP as u64).max(1);
        polls as f64 >= POLLED * halts as f64
    }

    fn median(&self, time: fn(&Round) -> u64) -> Option<f64> {
        let times = self.rounds.rounds.iter().map(time);
        median(times.filter_map(|ns| i64::try_from(ns).ok()).collect())
    }
}

fn median(mut times: Vec<i64>) -> Option<f64> {
    times.sort_unstable();
    percentile_of_sorted(&times, 0.5).map(|median| median as f64)
}

/// CPU time of one exit that KVM handles by itself, in nanoseconds; `None` if it was interrupted.
fn exit_cpu(plan: &Plan, interrupt: &impl AsFd) -> anyhow::Result<Option<f64>> {
    let measured = whole_run(&plan.load(Guest::Cpuid, EXIT_ROUNDS), interrupt)?;
    let exits = f64::from(EXIT_ROUNDS * CPUIDS);
    Ok(measured.map(|of| of.vcpu.cpu_ns as f64 / exits))
}

/// Measurements of a run of one vCPU; `None` if the run was interrupted.
fn whole_run(load: &Load, interrupt: &impl AsFd) -> anyhow::Result<Option<Measured>> {
    let Finished {
        outcome, rounds, ..
    } = run(load, interrupt)?;
    let vcpu = outcome.vms.into_iter().flat_map(|vm| vm.vcpus).next();
    let both = vcpu.zip(rounds.into_iter().flatten().next());
    let both = both.filter(|_| outcome.ended_by != EndedBy::Signal);
    Ok(both.map(|(vcpu, rounds)| Measured { vcpu, rounds }))
}

/// One run; `None` if it was interrupted.
fn measure(
    plan: &Plan,
    gap: Nanos,
    stamps: Stamps,
    ceiling: HaltPollNs,
    interrupt: &impl AsFd,
) -> anyhow::Result<Option<Measured>> {
    let rounds = (RUN_NS / gap.0.max(1)).clamp(FEWEST_ROUNDS, MOST_ROUNDS) + WARM_UP as u64;
    let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
    let mut load = plan.load(Guest::Pingpong(stamps), rounds);
    load.rhythm.spec = GapSpec::Fixed(gap);
    load.vm_max_halt_poll_ns = Some(ceiling);
    load.host_wait = if plan.vcpu_cpu == plan.host_cpu {
        HostWait::Block
    } else {
        HostWait::Spin
    };
    let mut measured = whole_run(&load, interrupt)?;
    if let Some(Measured { rounds, .. }) = &mut measured {
        rounds.rounds.drain(..WARM_UP.min(rounds.rounds.len()));
    }
    Ok(measured)
}

#[cfg(test)]
mod test {
    use super::*;
    use haltwise_core::hist::KvmHist;
    use haltwise_core::replay::calibration;
    use haltwise_core::replay::latency::Latencies;

    fn vcpu(halts: u64, waits: u64, cpu_ns: u64, poll_ns: u64) -> VcpuOutcome {
        let mut hist = KvmHist::default();
        hist.0[17] = waits;
        let stats = [("halt_poll_success_ns", poll_ns), ("halt_poll_fail_ns", 0)];
        VcpuOutcome {
            halts,
            cpu_ns,
            stats: stats.map(|(name, ns)| (name.to_owned(), ns)).into(),
            hist: [("halt_wait_hist".to_owned(), hist)].into(),
            ..VcpuOutcome::default()
        }
    }

    #[test]
    fn switch_cpu_is_found_from_its_own_equation() {
        // base 10 us, switch_cpu 6 us.
        let blocked = vcpu(100, 100, 100 * 16_000, 0);
        for waits in [0, 20, 50] {
            let cpu_ns = 200 * 10_000 + waits * 6_000 + 7_000_000;
            let polled = vcpu(200, waits, cpu_ns, 7_000_000);
            let found = switch_cpu(&blocked, &polled).unwrap();
            assert!((found - 6_000.0).abs() < 0.001, "{waits}: {found}");
        }
    }

    #[test]
    fn what_is_written_is_what_a_replay_reads() {
        let samples = Samples {
            latency: vec![22_000.0; 6],
            switch_cpu: vec![16_000.0; 6],
            ..Samples::default()
        };
        let written = Written {
            schema: SCHEMA,
            sleeper: Sleeper::Vcpu,
            vcpu_cpu: 1,
            host_cpu: 0,
            repetitions: 6,
            elapsed_ns: 1,
            classes: vec![
                samples.estimate(30_000),
                Samples::default().estimate(300_000),
            ],
            switch_cpu_ns: median_estimate(&samples.switch_cpu),
            exit_cpu_ns: median_estimate(&[1_400.0; 6]),
            ..Written::default()
        };
        let json = serde_json::to_string(&written).unwrap();
        let read: Written = serde_json::from_str(&json).unwrap();
        let read = calibration::Calibration::try_from(&read).unwrap();
        assert_eq!(read.switch_cpu().map(|of| of.ns), Some(16_000));
        let prices = read.prices(haltwise_core::recording::Side::Host);
        assert_eq!((prices.exit_cpu_ns, prices.ipi_cpu_ns), (Some(1_400), None));
        let mut latencies = Latencies::default();
        latencies.add(30_000, 22_000);
        assert_eq!(read.latencies(), &latencies);
    }

    #[test]
    fn without_contrast_there_is_no_estimate() {
        let blocked = vcpu(100, 100, 1_600_000, 0);
        assert_eq!(switch_cpu(&blocked, &vcpu(100, 60, 1_600_000, 0)), None);
        let mut silent = vcpu(100, 0, 1_000_000, 0);
        silent.stats.clear();
        assert_eq!(switch_cpu(&blocked, &silent), None);
    }
}
