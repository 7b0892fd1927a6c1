//! Totals over the rounds of `pingpong`, whether KVM or the VMM handles its halts.

use std::fmt;

use haltwise_core::policy::Policy;
use haltwise_core::units::{HaltPollNs, Nanos};

use super::{Block, Trial};
use haltwise_lab::clock::HostWait;
use haltwise_lab::drive::Round;
use haltwise_lab::guest::{Guest, Stamps};
use haltwise_lab::halt_loop::HaltPolicy;
use haltwise_lab::load::{Length, Load, LoadError};
use haltwise_lab::outcome::{Quantiles, VcpuOutcome};
use haltwise_lab::run::{Finished, run};

/// A load of `pingpong` for a trial. One vCPU has a CPU of its own, where there are two, and the host
/// waits as `how` says; several share what there is.
pub(super) fn load(trial: &Trial<'_>, name: &str, vcpus: u32, how: HostWait) -> Load {
    let mut load = Load::new(Guest::Pingpong(Stamps::None));
    load.vcpus = vcpus;
    load.length = Length::Duration(trial.length);
    load.rhythm.seed = trial.seed;
    name.clone_into(&mut load.name);
    if vcpus == 1 && trial.cpus.len() > 1 {
        load.vcpu_cpus = vec![trial.vcpu_cpu()];
        load.host_cpu = Some(trial.host_cpu());
        load.host_wait = how;
    }
    load
}

pub(super) fn measure(
    trial: &Trial<'_>,
    load: &Load,
    figures: fn(Block, &Account) -> Block,
) -> anyhow::Result<Block> {
    let finished = run(load, &trial.interrupt)?;
    let block = Block::of(finished.outcome.vcpus());
    Ok(figures(block, &Account::of(&finished)))
}

/// Side that handles halts, and its rule.
pub(super) enum Halts {
    /// The VMM, by a policy of the core.
    User(&'static str),
    /// The VMM, by a rule that no kernel has.
    Proposed(&'static str, fn() -> Box<dyn Policy>),
    /// KVM, under a ceiling of the VM's own; the other parameters as they are in force.
    Kernel(u32),
}

impl Halts {
    pub(super) fn set(&self, load: &mut Load) -> Result<(), LoadError> {
        match *self {
            Self::User(spec) => load.halt_policy = Some(HaltPolicy::here(spec.parse()?)),
            Self::Proposed(name, make) => load.halt_policy = Some(HaltPolicy::Own(name, make)),
            Self::Kernel(ceiling) => load.vm_max_halt_poll_ns = Some(HaltPollNs(ceiling)),
        }
        Ok(())
    }
}

impl fmt::Display for Halts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::User(spec) | Self::Proposed(spec, _) => write!(f, "the VMM halts by `{spec}`"),
            Self::Kernel(0) => f.write_str("KVM halts, polling off"),
            Self::Kernel(ns) => write!(f, "KVM halts, ceiling {}", Nanos(ns.into())),
        }
    }
}

/// Sums over a run of `pingpong`. What this kernel does not tell is no number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Account {
    pub(super) rounds: f64,
    pub(super) elapsed_ns: f64,
    /// CPU of the vCPU threads, in nanoseconds.
    pub(super) cpu_ns: f64,
    /// Part of `cpu_ns` that is polling, by KVM or by the VMM's halt loop.
    pub(super) polled_ns: f64,
    pub(super) hlts: f64,
    pub(super) switches: f64,
    /// Median and 99th percentile from signal to answer, in nanoseconds.
    pub(super) latency_ns: [f64; 2],
    /// From signal to answer, over all rounds, in nanoseconds.
    pub(super) waited_ns: f64,
    /// Median and 99th percentile from one answer to the next, in nanoseconds.
    pub(super) period_ns: [f64; 2],
    /// Rounds that took an interrupt of the host's.
    pub(super) interrupts: f64,
}

impl Account {
    pub(super) fn of(finished: &Finished) -> Self {
        let outcome = &finished.outcome;
        let sum = |of: fn(&VcpuOutcome) -> Option<u64>| outcome.sum(of).unwrap_or(f64::NAN);
        let ends = |times: Option<Quantiles>| {
            times.map_or([f64::NAN; 2], |times| [times.p50 as f64, times.p99 as f64])
        };
        let rounds = || {
            let vcpus = finished.rounds.iter().flatten();
            vcpus.flat_map(|vcpu| &vcpu.rounds)
        };
        let period = |round: &Round| round.gap_ns.saturating_add(round.round_trip_ns());
        Self {
            rounds: sum(|vcpu| vcpu.rounds.or(vcpu.guest_poll.map(|polls| polls.rounds))),
            elapsed_ns: outcome.elapsed_ns as f64,
            cpu_ns: sum(|vcpu| Some(vcpu.cpu_ns)),
            polled_ns: sum(polled_ns),
            hlts: sum(|vcpu| Some(vcpu.halts)),
            switches: sum(|vcpu| vcpu.voluntary_switches),
            latency_ns: ends(outcome.vms.first().and_then(|vm| vm.round_trip_ns)),
            waited_ns: rounds().map(Round::round_trip_ns).sum::<u64>() as f64,
            period_ns: ends(Quantiles::of(rounds().map(period).collect())),
            interrupts: rounds().filter(|round| round.interrupted).count() as f64,
        }
    }

    pub(super) fn each(&self, total: f64) -> f64 {
        total / self.rounds
    }

    pub(super) fn per_second(&self, count: f64) -> f64 {
        count / (self.elapsed_ns / 1e9)
    }

    /// A time as a share of the run, in % of one CPU.
    pub(super) fn percent(&self, ns: f64) -> f64 {
        100.0 * ns / self.elapsed_ns
    }
}

fn polled_ns(vcpu: &VcpuOutcome) -> Option<u64> {
    if let Some(halts) = vcpu.user_halts {
        return Some(halts.halt_poll_success_ns + halts.halt_poll_fail_ns);
    }
    Some(vcpu.stat("halt_poll_success_ns")? + vcpu.stat("halt_poll_fail_ns")?)
}
