//! Conditions that keep the pilot from acting, or make the pilot restore the setting found.

use serde::{Deserialize, Serialize};

use super::input::{Limits, Parameters, Pressure, Seen, VmSeen};
use crate::explain::HABIT;
use crate::kvm::Rule;
use crate::kvm::ceiling::CeilingRule;

crate::names! {
    pub enum Guard {
        /// Other tasks wait for a CPU.
        CpuPressure = "cpu-pressure",
        /// More vCPUs than CPUs, and none of these free. It names the reason: [`Guard::FreeCpus`] holds then, too.
        OverCommitment = "over-commitment",
        /// No CPU is free to poll on.
        FreeCpus = "free-cpus",
        /// Polling takes what it may take.
        PollingBudget = "polling-budget",
        /// A scheduler of `sched_ext` decides who runs.
        SchedExt = "sched-ext",
        /// The parameter does not reach VMs that run (5.8 to 6.0).
        Kernel = "kernel",
        /// The parameters cannot be written.
        ReadOnly = "read-only",
        /// VMs follow the parameters that are to be left alone.
        LeftAlone = "left-alone",
    }
}

impl Guard {
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guarded {
    pub guard: Guard,
    /// It keeps the pilot from acting.
    pub holds: bool,
    /// Figure that the guard looks at; `None` where the guard looks at no figure, or the figure is not known.
    pub value: Option<f64>,
    /// From which value on it holds.
    pub limit: Option<f64>,
    /// In words, with the source of its limit.
    pub why: String,
}

impl Guarded {
    /// It holds since its figure is not known yet: nothing is begun, and what was begun stays.
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

    fn in_words(&self) -> String {
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
                "some task waits for a CPU for {} of the time; from {} on (the same threshold as in `report --findings`) polling is not raised",
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

/// Number of CPUs that stay free on a host with `cpus` CPUs: with fewer than four CPUs, a quarter of them.
pub(super) fn free_cpus(cpus: u32) -> f64 {
    FREE_CPUS.min(f64::from(cpus) / 4.0)
}

/// Whether more polling must not be recommended: tasks wait for a CPU, or there are more vCPUs than CPUs and none of these is
/// free. `pressure` is the share of time in which some task waits, where that is known.
pub fn is_contended(cpus: u32, vcpus: u64, busy_cpus: f64, pressure: Option<f64>) -> bool {
    let has_none_free = f64::from(cpus) - busy_cpus < free_cpus(cpus);
    pressure.is_some_and(|share| share >= HABIT) || (vcpus > u64::from(cpus) && has_none_free)
}

/// All guards as they stand; `polled` is what all VMs poll, in CPUs.
pub(super) fn look(seen: &Seen, rule: Rule, limits: &Limits, polled: Option<f64>) -> Vec<Guarded> {
    let host = &seen.host;
    let vcpus = seen.vms.iter().map(|vm| vm.vcpus).sum::<u64>() as f64;
    let cpus = f64::from(host.cpus);
    let free = host.busy_cpus.map(|busy| (cpus - busy).max(0.0));
    let wanted = free_cpus(host.cpus);
    let has_none_free = free.is_some_and(|free| free < wanted);
    let is_crowded = vcpus > cpus && has_none_free;
    let is_full = free.is_none() || has_none_free;
    let reaches = |value: Option<f64>, limit| value.is_none_or(|value| value >= limit);
    let pressure = host.cpu_pressure.share();
    // Where no kernel accounts pressure, this guard would hold for ever.
    let is_pressed = reaches(pressure, HABIT) && host.cpu_pressure != Pressure::NotThere;
    let budget = limits.max_poll_cpu_percent.map(|percent| percent / 100.0);
    let is_over = budget.is_some_and(|budget| reaches(polled, budget));
    // The parameters do nothing to a VM whose guest forbids host polling.
    let alone = |vm: &&VmSeen| vm.goal.is_none() && !vm.polls_itself && vm.ceiling.own().is_none();
    let left_alone = seen.vms.iter().filter(alone).count() as f64;
    let is_alone = left_alone > 0.0 && limits.parameters != Parameters::Shared;
    let is_snapshot = rule.ceiling == CeilingRule::SnapshotOrCap;
    let all = [
        (Guard::CpuPressure, is_pressed, pressure, Some(HABIT)),
        (Guard::OverCommitment, is_crowded, Some(vcpus), Some(cpus)),
        (Guard::FreeCpus, is_full, free, Some(wanted)),
        (Guard::PollingBudget, is_over, polled, budget),
        (Guard::SchedExt, host.sched_ext, None, None),
        (Guard::Kernel, is_snapshot, None, None),
        (Guard::ReadOnly, !host.is_writable, None, None),
        (Guard::LeftAlone, is_alone, Some(left_alone), Some(1.0)),
    ];
    all.map(|(guard, holds, value, limit)| {
        let mut guarded = Guarded {
            guard,
            holds,
            value,
            limit,
            why: String::new(),
        };
        guarded.why = guarded.in_words();
        guarded
    })
    .into()
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::kvm::{Arch, Knobs, Version};
    use crate::pilot::input::{Ceiling, Goal, HostSeen};

    const FOUND_NS: u32 = 200_000;

    struct World {
        seen: Seen,
        limits: Limits,
        polled: Option<f64>,
        kernel: (u32, u32),
    }

    /// A host of eight CPUs and a VM on which nothing holds, but for this change.
    fn looked(change: impl FnOnce(&mut World)) -> Vec<Guarded> {
        let host = HostSeen {
            knobs: Some(Knobs {
                halt_poll_ns: FOUND_NS,
                ..Knobs::defaults(Version::new(6, 12), Arch::X86)
            }),
            is_writable: true,
            cpus: 8,
            busy_cpus: Some(0.0),
            cpu_pressure: Pressure::Share(0.0),
            ..HostSeen::default()
        };
        let vm = VmSeen {
            vcpus: 1,
            goal: Some(Goal::default()),
            ..VmSeen::default()
        };
        let mut world = World {
            seen: Seen {
                host,
                vms: vec![vm],
                counted: true,
            },
            limits: Limits::default(),
            polled: Some(0.0),
            kernel: (6, 12),
        };
        change(&mut world);
        let rule = Rule::of(Version::new(world.kernel.0, world.kernel.1), Arch::X86);
        look(&world.seen, rule, &world.limits, world.polled)
    }

    fn holding(change: impl FnOnce(&mut World)) -> Vec<Guard> {
        let looked = looked(change).into_iter();
        looked.filter(|it| it.holds).map(|it| it.guard).collect()
    }

    fn why(guard: Guard, change: impl FnOnce(&mut World)) -> String {
        let looked = looked(change);
        let of = looked.iter().find(|it| it.guard == guard);
        of.unwrap().why.clone()
    }

    fn pressure(of: &mut World, pressure: Pressure) {
        of.seen.host.cpu_pressure = pressure;
    }

    fn crowd(of: &mut World, vcpus: u64, busy_cpus: Option<f64>) {
        (of.seen.vms[0].vcpus, of.seen.host.busy_cpus) = (vcpus, busy_cpus);
    }

    fn budget(of: &mut World, limit: Option<f64>, polled: Option<f64>) {
        (of.limits.max_poll_cpu_percent, of.polled) = (limit, polled);
    }

    /// A VM that is to be left alone.
    fn alone(of: &mut World, ceiling: Ceiling, polls_itself: bool, parameters: Parameters) {
        let vm = &mut of.seen.vms[0];
        (vm.goal, vm.ceiling, vm.polls_itself) = (None, ceiling, polls_itself);
        of.limits.parameters = parameters;
    }

    type Case = (fn(&mut World), &'static [Guard]);

    /// Guards that hold in each case, from the value on at which a guard begins to hold.
    #[test]
    fn each_guard_at_its_edge() {
        use Ceiling::{Fixed, Follows, Own};
        use Guard::{
            CpuPressure, FreeCpus, Kernel, LeftAlone, OverCommitment, PollingBudget, ReadOnly,
            SchedExt,
        };
        use Parameters::{Never, Shared, Unshared};
        let cases: [Case; 27] = [
            (|of| pressure(of, Pressure::Share(0.2)), &[CpuPressure]),
            (|of| pressure(of, Pressure::Share(0.199)), &[]),
            (|of| pressure(of, Pressure::NotYet), &[CpuPressure]),
            (|of| pressure(of, Pressure::NotThere), &[]),
            // Over-commitment names the reason where no CPU is free, and never decides alone.
            (|of| crowd(of, 9, Some(7.01)), &[OverCommitment, FreeCpus]),
            (|of| crowd(of, 8, Some(7.01)), &[FreeCpus]),
            (|of| crowd(of, 9, Some(7.0)), &[]),
            (|of| crowd(of, 9, None), &[FreeCpus]),
            (|of| budget(of, Some(50.0), Some(0.5)), &[PollingBudget]),
            (|of| budget(of, Some(50.0), Some(0.499)), &[]),
            (|of| budget(of, Some(50.0), None), &[PollingBudget]),
            (|of| budget(of, None, None), &[]),
            (|of| budget(of, None, Some(8.0)), &[]),
            (|of| of.seen.host.sched_ext = true, &[SchedExt]),
            (|of| of.seen.host.is_writable = false, &[ReadOnly]),
            // From 5.8 to 6.0 the parameter does not reach VMs.
            (|of| of.kernel = (5, 7), &[]),
            (|of| of.kernel = (5, 8), &[Kernel]),
            (|of| of.kernel = (5, 19), &[Kernel]),
            (|of| of.kernel = (6, 0), &[Kernel]),
            (|of| of.kernel = (6, 1), &[]),
            // A VM that follows the parameter and is to be left alone.
            (|of| alone(of, Follows, false, Unshared), &[LeftAlone]),
            (|of| alone(of, Follows, false, Never), &[LeftAlone]),
            (|of| alone(of, Follows, false, Shared), &[]),
            (|of| alone(of, Own(FOUND_NS), false, Unshared), &[]),
            (|of| alone(of, Fixed, false, Unshared), &[LeftAlone]),
            (|of| alone(of, Follows, true, Unshared), &[]),
            (|_| {}, &[]),
        ];
        for (nth, (change, holds)) in cases.into_iter().enumerate() {
            assert_eq!(holding(change), holds, "case {nth}");
        }
    }

    #[test]
    fn what_is_not_known_and_what_is_not_there_is_said() {
        let pressed = |value| why(Guard::CpuPressure, |of| pressure(of, value));
        assert!(pressed(Pressure::NotYet).contains("not known yet"));
        assert!(pressed(Pressure::NotThere).contains("does not account"));
        let polling = |limit, polled| why(Guard::PollingBudget, |of| budget(of, limit, polled));
        assert!(polling(Some(50.0), None).contains("not known yet"));
        for polled in [None, Some(8.0)] {
            assert!(polling(None, polled).contains("no limit"));
        }
    }

    #[test]
    fn more_polling_that_would_hold_a_guard_is_known_before() {
        let looked = looked(|of| {
            of.seen.host.busy_cpus = Some(6.6);
            budget(of, Some(50.0), Some(0.2));
        });
        let would_hold = |more| -> Vec<Guard> {
            let holding = looked.iter().filter(|it| it.would_hold(more));
            holding.map(|it| it.guard).collect()
        };
        assert_eq!(would_hold(0.29), []);
        assert_eq!(would_hold(0.31), [Guard::PollingBudget]);
        assert_eq!(would_hold(0.41), [Guard::FreeCpus, Guard::PollingBudget]);
    }
}
