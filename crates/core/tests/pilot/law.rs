//! Laws that must hold, whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::explain::HABIT;
use haltwise_core::pilot::decision::{Change, Decision, Kind};
use haltwise_core::pilot::input::{Pressure, Scope, Seen, VmSeen};
use haltwise_core::pilot::regret::MOST;
use haltwise_core::pilot::{Limits, Parameters};

use super::journal::Machine;
use super::world::{SECOND, Vm};

pub(crate) const HOUR: u64 = 3_600 * SECOND;

/// Changes of one target in an hour, at most: what the pilot allows itself, and what it restores on top.
const CHANGES: usize = 130;

/// Settings of one target that are settled in an hour: kept, gone back from, restored.
const SETTLED: usize = 24;

/// The same in a day while loads stay as they are. What did not last, or failed, is tried again after 180 s at the soonest
/// (ten times as long as the shortest trial takes), then after twice that: nine times in a day, with two changes each. Three
/// more are better settings that are kept one after the other.
const SETTLED_IN_A_DAY: usize = 21;

/// Readings after which a setting is gone that a guard, or the configuration, forbids.
const GONE: u32 = 2;

/// Readings after which a target that is to be left alone has its setting again: it may be a trial's until then.
const LEFT_ALONE: u32 = 7;

/// Whether there are more of these times within so long than that; if so, when.
fn too_often(times: &[u64], within: u64, most: usize) -> Option<u64> {
    let mut each = times.iter().zip(times.iter().skip(most));
    let is_within = |(first, last): &(&u64, &u64)| **last - **first <= within;
    each.find(is_within).map(|(_, last)| *last)
}

/// Costs of VMs, as they were and as they would have been under the settings found, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    pub(crate) actual: f64,
    pub(crate) found: f64,
    /// Cost of a minute of each phase: no rule can know it sooner.
    pub(crate) unknown: f64,
}

impl Costs {
    fn add(&mut self, actual: f64, found: f64) {
        (self.actual, self.found) = (self.actual + actual, self.found + found);
    }

    /// Loss, as a share.
    fn loss(&self) -> f64 {
        self.actual / self.found - 1.0
    }

    /// Regret is within its bound, beside what the first minute of each phase may cost.
    fn are_bounded(&self, of: &str) {
        let allowed = self.found * (1.0 + MOST) + self.unknown;
        let percent = 100.0 * self.loss();
        assert!(self.actual <= allowed, "{of} lost {percent:.1} %");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Nothing,
    /// Other tasks want the CPUs, or the VMs poll what they may.
    Guard,
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct Laws {
    /// The last reading.
    pub(crate) seen: Seen,
    pub(crate) limits: Limits,
    changes: BTreeMap<Scope, Vec<u64>>,
    settled: BTreeMap<Scope, Vec<u64>>,
    /// For how many readings something stays that has to go, for either reason.
    stays: BTreeMap<(Scope, u32), u32>,
    left: BTreeSet<Scope>,
    pub(crate) all: Costs,
    /// The largest loss of a VM that was there for an hour, as a share.
    pub(crate) largest_loss: f64,
    /// VMs together for as long as they follow the host's parameter.
    pub(crate) following: Costs,
}

impl Laws {
    pub(crate) fn of(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// A pilot that may not act only restores; a setting of others, and one that cannot be written, is not changed.
    pub(crate) fn decided(&mut self, decision: &Decision, machine: &Machine) {
        let holds = |holds: bool, law: &str| assert!(holds, "broken: {law}: {decision:?}");
        if let (Kind::Try, Some(change)) = (decision.kind, decision.change) {
            self.begins(decision, change);
        }
        if decision.kind == Kind::HandsOff {
            let is_theirs = machine.of(decision.scope).theirs.is_some();
            holds(is_theirs, "another program has set it");
            self.left.insert(decision.scope);
        }
        let Some(change) = decision.change.filter(|_| decision.is_made) else {
            return;
        };
        holds(!self.left.contains(&decision.scope), "it is not theirs");
        let restores = matches!(decision.kind, Kind::GoBack | Kind::Restore);
        holds(self.limits.may_act || restores, "it may act");
        let is_writable = decision.scope != Scope::Host || self.seen.host.is_writable;
        holds(is_writable, "it can be written");
        if matches!(decision.kind, Kind::On | Kind::Again) {
            self.begins(decision, change);
        }
    }

    /// Nothing is begun that a guard, or the configuration, keeps from.
    fn begins(&self, decision: &Decision, change: Change) {
        let holds = |holds: bool, law: &str| assert!(holds, "broken: {law}: {decision:?}");
        let parameters = self.limits.parameters;
        if decision.scope == Scope::Host {
            let may_share = parameters == Parameters::Shared || !self.is_shared();
            holds(may_share, "no VM follows it that is to be left alone");
            holds(parameters != Parameters::Never, "it may be set");
        }
        let [from_ns, to_ns] = [change.from, change.to].map(|knobs| knobs.halt_poll_ns);
        holds(to_ns <= self.limits.max_ceiling_ns, "within the limit");
        holds(!self.seen.host.sched_ext, "not under sched_ext");
        let keeps = self.keeps();
        // A trial under way goes on while the value is not known.
        let goes_on = keeps == Keeps::Unknown && decision.kind == Kind::On;
        let may_poll_more = keeps == Keeps::Nothing || goes_on;
        holds(may_poll_more || to_ns <= from_ns, "no more polling");
    }

    /// Whether a VM follows the host's parameter that is to be left alone.
    fn is_shared(&self) -> bool {
        let mut vms = self.seen.vms.iter();
        vms.any(|vm| vm.goal.is_none() && !vm.polls_itself && vm.ceiling.own().is_none())
    }

    /// Guard against more polling, by the last reading.
    fn keeps(&self) -> Keeps {
        let host = &self.seen.host;
        let wanted = (f64::from(host.cpus) / 4.0).min(1.0);
        let free = host.busy_cpus.map(|busy| f64::from(host.cpus) - busy);
        let is_pressed = match host.cpu_pressure {
            Pressure::NotYet => None,
            Pressure::NotThere => Some(false),
            Pressure::Share(share) => Some(share >= HABIT),
        };
        let counts = |vm: &VmSeen| vm.counts.filter(|counts| counts.is_possible(vm.vcpus));
        let polled = |vm: &VmSeen| Some(counts(vm)?.poll_ns as f64 / 10e9);
        let polled: Option<f64> = self.seen.vms.iter().map(polled).sum();
        let is_over = match self.limits.max_poll_cpu_percent {
            None => Some(false),
            Some(limit) => polled.map(|polled| 100.0 * polled >= limit),
        };
        let all = [is_pressed, free.map(|free| free < wanted), is_over];
        match () {
            () if all.contains(&Some(true)) => Keeps::Guard,
            () if all.contains(&None) => Keeps::Unknown,
            () => Keeps::Nothing,
        }
    }

    /// A setting that has to go is restored within a few readings: of each target, and of VMs that are to be left alone.
    pub(crate) fn after_a_reading(&mut self, vms: &[Vm], machine: &Machine) {
        let is_shared = self.limits.parameters == Parameters::Shared;
        let param_is_theirs = machine.of(Scope::Host).theirs.is_some();
        for vm in vms {
            let scope = Scope::Vm(vm.key);
            let (place, now) = (machine.of(scope), machine.in_force(scope));
            let is_changed = now != vm.found_ns;
            let is_ours = place.own.is_some() && place.theirs.is_none();
            self.stays(
                scope,
                GONE,
                is_ours && self.has_to_go(scope, now, vm.found_ns),
            );
            let is_left = vm.polls_itself && is_ours;
            let is_not_restored = !is_shared && !param_is_theirs && !vm.polls_itself;
            let follows_ours = vm.goal.is_none() && place.own.is_none() && is_not_restored;
            self.stays(scope, LEFT_ALONE, (is_left || follows_ours) && is_changed);
        }
        let found = machine.without(Scope::Host);
        let has_to_go = self.has_to_go(Scope::Host, machine.param_ns(), found);
        self.stays(Scope::Host, GONE, !param_is_theirs && has_to_go);
    }

    /// A setting that polls more than the setting found while a guard forbids more polling, or one outside of the limits.
    fn has_to_go(&self, scope: Scope, now: u32, found: u32) -> bool {
        let limits = &self.limits;
        let is_never = scope == Scope::Host && limits.parameters == Parameters::Never;
        let polls_more = now > found && self.keeps() == Keeps::Guard;
        polls_more || (now != found && (is_never || now > limits.max_ceiling_ns))
    }

    fn stays(&mut self, scope: Scope, most: u32, must_go: bool) {
        let stays = self.stays.entry((scope, most)).or_default();
        *stays = if must_go { *stays + 1 } else { 0 };
        let limits = &self.limits;
        assert!(
            *stays < most,
            "{scope:?} has to go: {:?} {limits:?}",
            self.seen
        );
    }

    /// A change that could not be written has as many readings again.
    pub(crate) fn refused(&mut self, scope: Scope) {
        self.stays.retain(|(of, _), _| *of != scope);
    }

    /// The next life of the daemon has, too.
    pub(crate) fn dies(&mut self) {
        self.stays.clear();
    }

    /// No target changes too often, and none is settled again and again.
    pub(crate) fn made(&mut self, decision: &Decision, now: u64) {
        let is_rare = |of: &mut BTreeMap<Scope, Vec<u64>>, most: usize| {
            let times = of.entry(decision.scope).or_default();
            times.push(now);
            let last = times.len().saturating_sub(most + 1);
            let often = too_often(&times[last..], HOUR, most);
            assert_eq!(often, None, "more than {most} within an hour: {decision:?}");
        };
        is_rare(&mut self.changes, CHANGES);
        if !decision.kind.is_period() {
            is_rare(&mut self.settled, SETTLED);
        }
    }

    /// While loads stay as they are no target is settled again and again either, however slowly.
    pub(crate) fn is_settled(&self) {
        for (scope, settled) in &self.settled {
            let often = too_often(settled, 24 * HOUR, SETTLED_IN_A_DAY);
            assert_eq!(often, None, "settled too often within a day: {scope:?}");
        }
    }

    /// Adds what this time has cost, and would have cost without the pilot.
    pub(crate) fn pass(&mut self, ns: u64, vms: &mut [Vm], machine: &Machine) {
        let seconds = ns as f64 / 1e9;
        for vm in vms {
            let scope = Scope::Vm(vm.key);
            let place = machine.of(scope);
            if place.theirs.is_some() || vm.goal.is_none() {
                continue;
            }
            if place.own.is_none() {
                vm.found_ns = machine.without(Scope::Host);
            }
            let actual = seconds * vm.load.per_s(machine.in_force(scope));
            let found = seconds * vm.load.per_s(vm.found_ns);
            if place.own.is_some() {
                vm.costs.add(actual, found);
            } else if !vm.polls_itself {
                // By themselves they may lose where others gain more.
                self.following.add(actual, found);
            }
        }
    }

    /// A VM that was there for an hour has lost no more than allowed.
    pub(crate) fn ended(&mut self, vm: &Vm, now: u64) {
        let costs = &vm.costs;
        self.all.add(costs.actual, costs.found);
        if now - vm.came_ns >= HOUR && costs.found > 0.0 {
            self.largest_loss = self.largest_loss.max(costs.loss());
            costs.are_bounded(&format!("{:?}", vm.key));
        }
    }

    /// VMs that follow the host's parameter lose no more than that together.
    pub(crate) fn followed(&mut self) {
        self.all.add(self.following.actual, self.following.found);
        self.following.are_bounded("VMs that follow the parameter");
    }
}

/// A setting that is kept and restored in turn, each two minutes, breaks the law of an hour; each half hour that of a day.
#[test]
fn the_laws_of_oscillation_can_be_broken() {
    let (day, minute) = (24 * HOUR, 60 * SECOND);
    let each = |gap: u64| -> Vec<u64> { (0..2 * day / gap).map(|n| HOUR + n * gap).collect() };
    let fast = too_often(&each(2 * minute), HOUR, SETTLED);
    assert_eq!(fast, Some(HOUR + 48 * minute));
    let slow = each(30 * minute);
    assert_eq!(too_often(&slow, HOUR, SETTLED), None);
    let in_a_day = too_often(&slow, day, SETTLED_IN_A_DAY);
    assert_eq!(in_a_day, Some(HOUR + 21 * 30 * minute));
}
