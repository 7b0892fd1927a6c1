//! What keeps the pilot from acting, or makes it restore what it found.

use super::goals::{Limits, Parameters};
use super::input::{Seen, VmSeen};
use crate::explain::HABIT;
use crate::kvm::Rule;
use crate::kvm::ceiling::CeilingRule;

/// A guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// Other tasks wait for a CPU.
    CpuPressure,
    /// More vCPUs than CPUs, and none of these free.
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
    /// What it looks at.
    pub value: Option<f64>,
    /// From which value on it holds.
    pub limit: Option<f64>,
}

impl Standing {
    /// In words, with the source of its limit.
    pub fn why(&self) -> String {
        let percent = |of: Option<f64>| {
            of.map_or_else(|| "unknown".to_owned(), |of| format!("{:.0} %", of * 100.0))
        };
        let plain =
            |of: Option<f64>| of.map_or_else(|| "unknown".to_owned(), |of| format!("{of:.1}"));
        let (value, limit) = (self.value, self.limit);
        match self.guard {
            Guard::CpuPressure => format!(
                "some task waits for a CPU for {} of the time; from {} on (as `explain` has it) polling is not raised",
                percent(value),
                percent(limit)
            ),
            Guard::OverCommitment => format!(
                "{} vCPUs, and {} of them can run while a CPU is free; with more, polling is not raised",
                plain(value),
                plain(limit)
            ),
            Guard::FreeCpus => format!(
                "{} CPUs are free; with fewer than {}, polling is not raised",
                plain(value),
                plain(limit)
            ),
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
}

/// One CPU stays free, for what wakes a vCPU has to run somewhere, too (the interrupt, the thread of the device).
const FREE_CPUS: f64 = 1.0;

/// All of them, as they stand.
pub(super) fn look(
    seen: &Seen,
    rule: &Rule,
    limits: &Limits,
    polled: Option<f64>,
) -> Vec<Standing> {
    let host = &seen.host;
    let vcpus = seen.vms.iter().map(|vm| vm.vcpus).sum::<u64>() as f64;
    let cpus = f64::from(host.cpus);
    let free = host.busy_cpus.map(|busy| (cpus - busy).max(0.0));
    // On a host of one or two CPUs, half of one.
    let wanted = FREE_CPUS.min(cpus / 4.0);
    let has_none_free = free.is_some_and(|free| free < wanted);
    let over = |value: Option<f64>, limit: Option<f64>| {
        value
            .zip(limit)
            .is_some_and(|(value, limit)| value >= limit)
    };
    let at = |guard, value, limit, holds| Standing {
        guard,
        holds,
        value,
        limit,
    };
    let budget = limits.max_poll_cpu_percent.map(|percent| percent / 100.0);
    let pressure = host.cpu_pressure;
    let param = host.knobs.map(|knobs| knobs.halt_poll_ns);
    // The parameters do nothing to a VM whose guest forbids host polling.
    let alone = |vm: &&VmSeen| vm.goal.is_none() && !vm.polls_itself && vm.ceiling.follows(param);
    let left_alone = seen.vms.iter().filter(alone).count() as f64;
    let is_snapshot = rule.ceiling == CeilingRule::SnapshotOrCap;
    vec![
        at(
            Guard::CpuPressure,
            pressure,
            Some(HABIT),
            over(pressure, Some(HABIT)),
        ),
        at(
            Guard::OverCommitment,
            Some(vcpus),
            Some(cpus),
            vcpus > cpus && has_none_free,
        ),
        at(Guard::FreeCpus, free, Some(wanted), has_none_free),
        at(Guard::PollingBudget, polled, budget, over(polled, budget)),
        at(Guard::SchedExt, None, None, host.sched_ext),
        at(Guard::Kernel, None, None, is_snapshot),
        at(Guard::ReadOnly, None, None, !host.is_writable),
        at(
            Guard::LeftAlone,
            Some(left_alone),
            Some(1.0),
            left_alone >= 1.0 && limits.parameters != Parameters::Shared,
        ),
    ]
}
