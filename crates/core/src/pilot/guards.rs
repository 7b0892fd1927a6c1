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

/// Whether more polling must not be recommended: tasks wait for a CPU, or there are more vCPUs than CPUs and none of these is
/// free. `pressure` is the share of time in which some task waits, where that is known.
pub fn is_contended(cpus: u32, vcpus: u64, busy_cpus: f64, pressure: Option<f64>) -> bool {
    let has_none_free = f64::from(cpus) - busy_cpus < free_cpus(cpus);
    pressure.is_some_and(|share| share >= HABIT) || (vcpus > u64::from(cpus) && has_none_free)
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

#[cfg(test)]
mod test {
    use super::*;
    use crate::ids::{Pid, VmKey};
    use crate::kvm::{Arch, Knobs, Version};
    use crate::pilot::goals::Goal;
    use crate::pilot::input::{Ceiling, HostSeen};

    const FOUND_NS: u32 = 200_000;

    /// A host of so many CPUs on which nothing holds.
    fn host(cpus: u32) -> HostSeen {
        HostSeen {
            knobs: Some(Knobs {
                halt_poll_ns: FOUND_NS,
                ..Knobs::defaults(Version::new(6, 12), Arch::X86)
            }),
            is_writable: true,
            cpus,
            busy_cpus: Some(0.0),
            cpu_pressure: Pressure::Share(0.0),
            ..HostSeen::default()
        }
    }

    fn vm(vcpus: u64) -> VmSeen {
        VmSeen {
            key: VmKey {
                pid: Pid(1),
                start_ticks: 1,
                ordinal: 0,
            },
            name: String::new(),
            vcpus,
            goal: Some(Goal::default()),
            ceiling: Ceiling::Follows,
            held: None,
            has_answered: true,
            polls_itself: false,
            counts: None,
        }
    }

    fn looked(seen: (HostSeen, VmSeen), limits: &Limits, polled: Option<f64>) -> Vec<Standing> {
        let seen = Seen {
            host: seen.0,
            vms: vec![seen.1],
            counted: true,
        };
        let rule = Rule::of(Version::new(6, 12), Arch::X86);
        look(&seen, &rule, limits, polled)
    }

    fn holding(all: &[Standing]) -> Vec<Guard> {
        let holding = all.iter().filter(|it| it.holds);
        holding.map(|it| it.guard).collect()
    }

    /// Those that hold on such a host.
    fn on(host: HostSeen) -> Vec<Guard> {
        holding(&looked((host, vm(1)), &Limits::default(), Some(0.0)))
    }

    fn why(all: &[Standing], guard: Guard) -> String {
        let of = all.iter().find(|it| it.guard == guard);
        of.map(Standing::why).unwrap()
    }

    #[test]
    fn cpu_pressure_holds_from_its_limit_on_and_while_it_is_not_known() {
        let at = |cpu_pressure| {
            let host = HostSeen {
                cpu_pressure,
                ..host(8)
            };
            let all = looked((host, vm(1)), &Limits::default(), Some(0.0));
            (holding(&all), why(&all, Guard::CpuPressure))
        };
        let holds = vec![Guard::CpuPressure];
        assert_eq!(at(Pressure::Share(0.2)).0, holds);
        assert_eq!(at(Pressure::Share(0.199)).0, []);
        let (of, why) = at(Pressure::NotYet);
        assert_eq!(of, holds);
        assert!(why.contains("not known yet"), "{why}");
        let (of, why) = at(Pressure::NotThere);
        assert_eq!(of, []);
        assert!(why.contains("does not account"), "{why}");
    }

    #[test]
    fn one_cpu_stays_free_and_of_few_a_quarter() {
        for (cpus, busy) in [(1, 0.75), (2, 1.5), (4, 3.0), (8, 7.0)] {
            let at = |busy_cpus| {
                on(HostSeen {
                    busy_cpus,
                    ..host(cpus)
                })
            };
            assert_eq!(at(Some(busy)), [], "{cpus}");
            assert_eq!(at(Some(busy + 0.01)), [Guard::FreeCpus], "{cpus}");
            assert_eq!(at(None), [Guard::FreeCpus], "{cpus}");
        }
    }

    /// It names the reason where no CPU is free, and never decides alone.
    #[test]
    fn over_commitment_is_more_vcpus_than_cpus_and_none_free() {
        let at = |vcpus, busy_cpus| {
            let host = HostSeen {
                busy_cpus,
                ..host(8)
            };
            holding(&looked((host, vm(vcpus)), &Limits::default(), Some(0.0)))
        };
        assert_eq!(at(9, Some(7.01)), [Guard::OverCommitment, Guard::FreeCpus]);
        assert_eq!(at(8, Some(7.01)), [Guard::FreeCpus]);
        assert_eq!(at(9, Some(7.0)), []);
        assert_eq!(at(9, None), [Guard::FreeCpus]);
    }

    #[test]
    fn the_polling_budget_holds_from_its_limit_on_and_while_nobody_knows() {
        let at = |max_poll_cpu_percent, polled| {
            let limits = Limits {
                max_poll_cpu_percent,
                ..Limits::default()
            };
            let all = looked((host(8), vm(1)), &limits, polled);
            (holding(&all), why(&all, Guard::PollingBudget))
        };
        let holds = vec![Guard::PollingBudget];
        assert_eq!(at(Some(50.0), Some(0.5)).0, holds);
        assert_eq!(at(Some(50.0), Some(0.499)).0, []);
        let (of, why) = at(Some(50.0), None);
        assert_eq!(of, holds);
        assert!(why.contains("not known yet"), "{why}");
        for polled in [None, Some(8.0)] {
            let (of, why) = at(None, polled);
            assert_eq!(of, []);
            assert!(why.contains("no limit"), "{why}");
        }
    }

    #[test]
    fn more_polling_that_would_hold_a_guard_is_known_before() {
        let limits = Limits {
            max_poll_cpu_percent: Some(50.0),
            ..Limits::default()
        };
        let host = HostSeen {
            busy_cpus: Some(6.6),
            ..host(8)
        };
        let would_hold = |more| {
            let all = looked((host.clone(), vm(1)), &limits, Some(0.2));
            let would = all.into_iter().filter(|it| it.would_hold(more));
            would.map(|it| it.guard).collect::<Vec<_>>()
        };
        assert_eq!(would_hold(0.29), []);
        assert_eq!(would_hold(0.31), [Guard::PollingBudget]);
        assert_eq!(would_hold(0.41), [Guard::FreeCpus, Guard::PollingBudget]);
    }

    #[test]
    fn a_scheduler_of_sched_ext_and_parameters_that_cannot_be_written_hold() {
        let sched_ext = |sched_ext| {
            on(HostSeen {
                sched_ext,
                ..host(8)
            })
        };
        assert_eq!(sched_ext(true), [Guard::SchedExt]);
        assert_eq!(sched_ext(false), []);
        let writable = |is_writable| {
            on(HostSeen {
                is_writable,
                ..host(8)
            })
        };
        assert_eq!(writable(false), [Guard::ReadOnly]);
        assert_eq!(writable(true), []);
    }

    #[test]
    fn from_5_8_to_6_0_the_parameter_does_not_reach_vms() {
        let at = |major, minor| {
            let rule = Rule::of(Version::new(major, minor), Arch::X86);
            let seen = Seen {
                host: host(8),
                ..Seen::default()
            };
            holding(&look(&seen, &rule, &Limits::default(), Some(0.0)))
        };
        for (major, minor) in [(5, 8), (5, 19), (6, 0)] {
            assert_eq!(at(major, minor), [Guard::Kernel], "{major}.{minor}");
        }
        for (major, minor) in [(5, 7), (6, 1), (6, 12)] {
            assert_eq!(at(major, minor), [], "{major}.{minor}");
        }
    }

    #[test]
    fn a_vm_that_is_to_be_left_alone_and_follows_the_parameter_holds_unless_it_is_shared() {
        let at = |of: VmSeen, parameters| {
            let limits = Limits {
                parameters,
                ..Limits::default()
            };
            holding(&looked((host(8), of), &limits, Some(0.0)))
        };
        let alone = || VmSeen {
            goal: None,
            ..vm(1)
        };
        let unshared = |of| at(of, Parameters::Unshared);
        assert_eq!(unshared(alone()), [Guard::LeftAlone]);
        assert_eq!(at(alone(), Parameters::Never), [Guard::LeftAlone]);
        assert_eq!(at(alone(), Parameters::Shared), []);
        assert_eq!(unshared(vm(1)), []);
        for (ceiling, holds) in [
            (Ceiling::Own(FOUND_NS), false),
            (Ceiling::Fixed(Some(FOUND_NS)), true),
            (Ceiling::Fixed(None), true),
            (Ceiling::Fixed(Some(0)), false),
        ] {
            let of = unshared(VmSeen { ceiling, ..alone() });
            assert_eq!(!of.is_empty(), holds, "{ceiling:?}");
        }
        let polls_itself = VmSeen {
            has_answered: true,
            polls_itself: true,
            ..alone()
        };
        assert_eq!(unshared(polls_itself), []);
    }
}
