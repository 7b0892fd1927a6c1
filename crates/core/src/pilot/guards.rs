//! What keeps the pilot from acting, or makes it restore what it found.

use super::goals::{Limits, Parameters};
use super::input::{Pressure, Seen, VmSeen};
use crate::explain::HABIT;
use crate::kvm::Rule;
use crate::kvm::ceiling::CeilingRule;

/// A guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// Other tasks wait for a CPU.
    CpuPressure,
    /// More vCPUs than CPUs, and none of these free. It names the reason: [`Guard::FreeCpus`] holds then, too.
    OverCommitment,
    /// No CPU is free to poll on.
    FreeCpus,
    /// Polling takes what it may take.
    PollingBudget,
    /// A scheduler of `sched_ext` decides who runs.
    SchedExt,
    /// The parameter does not reach VMs that run (5.8 to 6.0).
    Kernel,
    /// The parameters cannot be written.
    ReadOnly,
    /// VMs follow the parameters that are to be left alone.
    LeftAlone,
}

impl Guard {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CpuPressure => "cpu-pressure",
            Self::OverCommitment => "over-commitment",
            Self::FreeCpus => "free-cpus",
            Self::PollingBudget => "polling-budget",
            Self::SchedExt => "sched-ext",
            Self::Kernel => "kernel",
            Self::ReadOnly => "read-only",
            Self::LeftAlone => "left-alone",
        }
    }

    /// Whether it concerns more polling alone, and less is always allowed.
    pub fn is_of_polling(self) -> bool {
        matches!(
            self,
            Self::CpuPressure | Self::OverCommitment | Self::FreeCpus | Self::PollingBudget
        )
    }

    /// Whether it concerns the host's parameters alone, and ceilings of VMs can be set.
    pub fn is_of_parameters(self) -> bool {
        matches!(self, Self::Kernel | Self::ReadOnly | Self::LeftAlone)
    }
}

/// A guard as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Which.
    pub guard: Guard,
    /// It keeps the pilot from acting.
    pub holds: bool,
    /// What it looks at; `None` where it looks at no figure, or that is not known.
    pub value: Option<f64>,
    /// From which value on it holds.
    pub limit: Option<f64>,
}

impl Standing {
    /// It holds since nobody knows its figure yet: nothing is begun, and what was begun stays.
    pub fn is_not_known(&self) -> bool {
        self.holds && self.limit.is_some() && self.value.is_none()
    }

    /// Whether it would hold if so much more were polled, in CPUs.
    pub(super) fn would_hold(&self, more: f64) -> bool {
        let Some((value, limit)) = self.value.zip(self.limit) else {
            return false;
        };
        match self.guard {
            Guard::PollingBudget => value + more >= limit,
            Guard::FreeCpus => value - more < limit,
            _ => false,
        }
    }

    /// In words, with the source of its limit.
    pub fn why(&self) -> String {
        let percent = |of: Option<f64>| {
            of.map_or_else(|| "unknown".to_owned(), |of| format!("{:.0} %", of * 100.0))
        };
        if self.is_not_known() {
            return self.why_not_known();
        }
        let plain =
            |of: Option<f64>| of.map_or_else(|| "unknown".to_owned(), |of| format!("{of:.1}"));
        let (value, limit) = (self.value, self.limit);
        match self.guard {
            Guard::CpuPressure if value.is_none() => {
                "the kernel does not account how long tasks wait for a CPU (PSI): free CPUs decide whether polling is raised"
                    .to_owned()
            }
            Guard::CpuPressure => format!(
                "some task waits for a CPU for {} of the time; from {} on (as `explain` has it) polling is not raised",
                percent(value),
                percent(limit)
            ),
            Guard::OverCommitment => format!(
                "{} vCPUs on {} CPUs; with more vCPUs than CPUs and no CPU free, polling is not raised",
                plain(value),
                plain(limit)
            ),
            Guard::FreeCpus => format!(
                "{} CPUs are free; with fewer than {}, polling is not raised",
                plain(value),
                plain(limit)
            ),
            Guard::PollingBudget if limit.is_none() => {
                format!("polling takes {} of a CPU, and no limit was given", percent(value))
            }
            Guard::PollingBudget => format!(
                "polling takes {} of a CPU, and may take {}",
                percent(value),
                percent(limit)
            ),
            Guard::SchedExt => "a sched_ext scheduler decides who runs: preempted polls are not seen there, so nothing is set"
                .to_owned(),
            Guard::Kernel => "from Linux 5.8 to 6.0 halt_poll_ns does not reach VMs that run, so it is not set".to_owned(),
            Guard::ReadOnly => "KVM's parameters cannot be written here; only ceilings of VMs can be set".to_owned(),
            Guard::LeftAlone => format!(
                "{} VMs that are to be left alone follow the host's parameters, so these are not set (limits.shared_parameters \
                 allows it)",
                plain(value)
            ),
        }
    }

    fn why_not_known(&self) -> String {
        let what = match self.guard {
            Guard::CpuPressure => "for how long tasks wait for a CPU",
            Guard::FreeCpus => "how many CPUs are free",
            Guard::PollingBudget => "what all VMs poll, which is limited,",
            _ => "its figure",
        };
        format!("{what} is not known yet; until it is, polling is not raised")
    }
}

/// One CPU stays free, for what wakes a vCPU has to run somewhere, too (the interrupt, the thread of the device).
const FREE_CPUS: f64 = 1.0;

/// So many CPUs stay free on a host of so many: of fewer than four, a quarter of them.
pub(super) fn free_cpus(cpus: u32) -> f64 {
    FREE_CPUS.min(f64::from(cpus) / 4.0)
}

/// At this and beyond a guard holds.
fn at_least(guard: Guard, value: Option<f64>, limit: f64) -> Standing {
    Standing {
        guard,
        holds: value.is_none_or(|value| value >= limit),
        value,
        limit: Some(limit),
    }
}

/// How long tasks wait for a CPU. Where no kernel says so, it would hold for ever.
fn cpu_pressure(pressure: Pressure) -> Standing {
    let of = at_least(Guard::CpuPressure, pressure.share(), HABIT);
    Standing {
        holds: of.holds && pressure != Pressure::NotThere,
        ..of
    }
}

/// Those that concern polling; `polled` is what all VMs poll, in CPUs.
fn of_polling(seen: &Seen, limits: &Limits, polled: Option<f64>) -> [Standing; 4] {
    let host = &seen.host;
    let vcpus = seen.vms.iter().map(|vm| vm.vcpus).sum::<u64>() as f64;
    let cpus = f64::from(host.cpus);
    let free = host.busy_cpus.map(|busy| (cpus - busy).max(0.0));
    let wanted = free_cpus(host.cpus);
    let has_none_free = free.is_some_and(|free| free < wanted);
    let over_commitment = Standing {
        guard: Guard::OverCommitment,
        holds: vcpus > cpus && has_none_free,
        value: Some(vcpus),
        limit: Some(cpus),
    };
    let free_cpus = Standing {
        guard: Guard::FreeCpus,
        holds: free.is_none() || has_none_free,
        value: free,
        limit: Some(wanted),
    };
    let budget = match limits.max_poll_cpu_percent {
        Some(percent) => at_least(Guard::PollingBudget, polled, percent / 100.0),
        None => Standing {
            guard: Guard::PollingBudget,
            holds: false,
            value: polled,
            limit: None,
        },
    };
    let pressure = cpu_pressure(host.cpu_pressure);
    [pressure, over_commitment, free_cpus, budget]
}

/// All of them, as they stand.
pub(super) fn look(
    seen: &Seen,
    rule: &Rule,
    limits: &Limits,
    polled: Option<f64>,
) -> Vec<Standing> {
    let host = &seen.host;
    let at = |guard, holds| Standing {
        guard,
        holds,
        value: None,
        limit: None,
    };
    let param = host.knobs.map(|knobs| knobs.halt_poll_ns);
    // The parameters do nothing to a VM whose guest forbids host polling.
    let alone = |vm: &&VmSeen| vm.goal.is_none() && !vm.polls_itself && vm.ceiling.follows(param);
    let left_alone = seen.vms.iter().filter(alone).count() as f64;
    let is_alone = at_least(Guard::LeftAlone, Some(left_alone), 1.0);
    let is_snapshot = rule.ceiling == CeilingRule::SnapshotOrCap;
    let others = [
        at(Guard::SchedExt, host.sched_ext),
        at(Guard::Kernel, is_snapshot),
        at(Guard::ReadOnly, !host.is_writable),
        Standing {
            holds: is_alone.holds && limits.parameters != Parameters::Shared,
            ..is_alone
        },
    ];
    let of_polling = of_polling(seen, limits, polled);
    of_polling.into_iter().chain(others).collect()
}
