//! Laws that hold whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::explain::HABIT;
use haltwise_core::pilot::Parameters;
use haltwise_core::pilot::decision::{Decision, Kind};
use haltwise_core::pilot::input::{Pressure, Scope, VmSeen};
use haltwise_core::pilot::memory::MOST;

use super::world::{HOUR, SECOND, STEP, Vm, World};

/// Changes of one target in an hour: the pilot's own limit, and restores on top.
const CHANGES: usize = 130;

/// Settings of one target that are settled in an hour: kept, gone back from, restored.
const SETTLED: usize = 24;

/// The same in a day while loads stay as they are. A setting that did not last, or failed, is tried again after 180 s at
/// the soonest (ten times as long as the shortest trial takes), then after twice that: nine times in a day, with two
/// changes each. Three more are better settings that are kept one after the other.
const SETTLED_IN_A_DAY: usize = 21;

/// Readings after which a setting is gone that a guard, or the configuration, forbids, or that an earlier run only tried.
const GONE: u32 = 2;

/// Readings after which a target that is to be left alone has its setting again: it may be a trial's until then.
const LEFT_ALONE: u32 = 7;

/// Costs as they were and as they would have been under the settings found, in nanoseconds.
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

    fn are_bounded(&self, of: &str) {
        let allowed = self.found * (1.0 + MOST) + self.unknown;
        let percent = 100.0 * (self.actual / self.found - 1.0);
        assert!(self.actual <= allowed, "{of} lost {percent:.1} %");
    }
}

#[derive(Debug, Default)]
pub(crate) struct Laws {
    changes: BTreeMap<Scope, Vec<u64>>,
    settled: BTreeMap<Scope, Vec<u64>>,
    /// The setting of each target that was kept last.
    kept: BTreeMap<Scope, u32>,
    /// Targets that are left to another program.
    pub(crate) left: BTreeSet<Scope>,
    /// Targets whose last change failed.
    pub(crate) stuck: BTreeSet<Scope>,
    /// For how many readings something stays that has to go, by the most that it may.
    pub(crate) stays: BTreeMap<(Scope, u32), u32>,
    pub(crate) all: Costs,
    /// VMs together for as long as they follow the host's parameter.
    pub(crate) following: Costs,
}

/// Whether more of these times than that are within so long.
fn too_often(times: &[u64], within: u64, most: usize) -> bool {
    let mut each = times.iter().zip(times.iter().skip(most));
    each.any(|(first, last)| last - first <= within)
}

impl Laws {
    /// No target changes too often, and none is settled again and again.
    pub(crate) fn made(&mut self, decision: &Decision, now: u64) {
        let is_rare = |of: &mut BTreeMap<Scope, Vec<u64>>, most: usize| {
            let times = of.entry(decision.scope).or_default();
            times.push(now);
            let last = times.len().saturating_sub(most + 1);
            let often = too_often(&times[last..], HOUR, most);
            assert!(!often, "more than {most} within an hour: {decision:?}");
        };
        is_rare(&mut self.changes, CHANGES);
        if !decision.kind.is_period() {
            is_rare(&mut self.settled, SETTLED);
        }
    }

    /// While loads stay as they are no target is settled again and again either, however slowly.
    pub(crate) fn are_settled(&self) {
        for (scope, settled) in &self.settled {
            let often = too_often(settled, 24 * HOUR, SETTLED_IN_A_DAY);
            assert!(!often, "settled too often within a day: {scope:?}");
        }
    }
}

impl World {
    /// A pilot that may not act only restores; it changes no setting of others, and none that cannot be written; it begins
    /// nothing that a guard, or the configuration, forbids.
    pub(crate) fn is_lawful(&mut self, decision: &Decision) {
        let (scope, kind) = (decision.scope, decision.kind);
        let holds = |holds: bool, law: &str| assert!(holds, "broken: {law}: {decision:?}");
        let is_left = self.laws.left.contains(&scope);
        if kind == Kind::HandsOff {
            let is_theirs = self.settings.get(scope).is_theirs;
            holds(is_theirs, "another program has set it");
            self.laws.left.insert(scope);
        }
        holds(!decision.is_made || !is_left, "it is not theirs");
        let restores = matches!(kind, Kind::GoBack | Kind::Restore);
        let is_writable = scope != Scope::Host || self.host.is_writable;
        holds(
            !decision.is_made || self.limits.may_act || restores,
            "it may act",
        );
        holds(!decision.is_made || is_writable, "it can be written");
        if let (Kind::Keep | Kind::Again, Some(change)) = (kind, decision.change) {
            self.laws.kept.insert(scope, change.to.halt_poll_ns);
        }
        if !matches!(kind, Kind::Try | Kind::On | Kind::Again) {
            return;
        }
        let change = decision.change.unwrap();
        let [from_ns, to_ns] = [change.from, change.to].map(|knobs| knobs.halt_poll_ns);
        holds(to_ns <= self.limits.max_ceiling_ns, "within the limit");
        for guard in self.pilot().standing().guards.iter().filter(|it| it.holds) {
            // A trial under way goes on while a figure is not known.
            let goes_on = kind == Kind::On && guard.is_not_known();
            let is_less = to_ns <= from_ns && guard.guard.is_of_polling();
            let is_of_others = scope != Scope::Host && guard.guard.is_of_parameters();
            holds(goes_on || is_less || is_of_others, &guard.why);
        }
        let may_poll_more = match self.forbids_polling() {
            Some(forbids) => !forbids,
            None => kind == Kind::On,
        };
        holds(may_poll_more || to_ns <= from_ns, "no more polling");
    }

    /// Whether the last reading forbids more polling, worked out beside the pilot's guards; `None` where a figure that
    /// decides is not known.
    fn forbids_polling(&self) -> Option<bool> {
        let host = &self.read.host;
        let wanted = (f64::from(host.cpus) / 4.0).min(1.0);
        let free = host.busy_cpus.map(|busy| f64::from(host.cpus) - busy);
        let is_pressed = match host.cpu_pressure {
            Pressure::NotYet => None,
            Pressure::NotThere => Some(false),
            Pressure::Share(share) => Some(share >= HABIT),
        };
        let counts = |vm: &VmSeen| vm.counts.filter(|counts| counts.is_possible(vm.vcpus));
        let polled = |vm: &VmSeen| Some(100.0 * counts(vm)?.poll_ns as f64 / STEP as f64);
        let polled: Option<f64> = self.read.vms.iter().map(polled).sum();
        let is_over = match self.limits.max_poll_cpu_percent {
            None => Some(false),
            Some(limit) => polled.map(|polled| polled >= limit),
        };
        let all = [is_pressed, free.map(|free| free < wanted), is_over];
        if all.contains(&Some(true)) {
            Some(true)
        } else {
            (!all.contains(&None)).then_some(false)
        }
    }

    /// A setting that has to go is restored within a few readings: of each target, and of VMs that are left alone.
    pub(crate) fn is_restored_in_time(&mut self) {
        let Some(pilot) = self.pilot.as_ref().filter(|_| self.may_restore) else {
            return;
        };
        let on_trial = pilot.on_trial();
        let host = self.settings.0[&Scope::Host];
        let is_shared = self.limits.parameters == Parameters::Shared || host.is_theirs;
        for at in 0..self.vms.len() {
            let vm = &self.vms[at];
            let (scope, found) = (vm.scope(), vm.found_ns);
            let (setting, is_changed) = (self.settings.0[&scope], self.at(scope) != found);
            let is_ours = setting.own.is_some() && !setting.is_theirs;
            let follows_ours = vm.seen.goal.is_none() && setting.own.is_none() && !is_shared;
            let is_left = if vm.seen.polls_itself {
                is_ours
            } else {
                follows_ours
            };
            let has_to_go = is_ours && self.has_to_go(scope, found, on_trial);
            self.stays(scope, LEFT_ALONE, is_left && is_changed);
            self.stays(scope, GONE, has_to_go);
        }
        let found = self.settings.without(Scope::Host);
        let has_to_go = !host.is_theirs && self.has_to_go(Scope::Host, found, on_trial);
        self.stays(Scope::Host, GONE, has_to_go);
    }

    /// Whether a setting polls more than the setting found while a guard forbids that, is outside of the limits, or is
    /// neither on trial nor kept.
    fn has_to_go(&self, scope: Scope, found: u32, on_trial: Option<Scope>) -> bool {
        let (now, limits) = (self.at(scope), &self.limits);
        let is_never = scope == Scope::Host && limits.parameters == Parameters::Never;
        let is_left = on_trial == Some(scope) || self.laws.stuck.contains(&scope);
        let is_kept = is_left || self.laws.kept.get(&scope) == Some(&now);
        let polls_more = now > found && self.forbids_polling() == Some(true);
        polls_more || (now != found && (is_never || !is_kept || now > limits.max_ceiling_ns))
    }

    fn stays(&mut self, scope: Scope, most: u32, must_go: bool) {
        let stays = self.laws.stays.entry((scope, most)).or_default();
        *stays = if must_go { *stays + 1 } else { 0 };
        assert!(*stays < most, "{scope:?} has to go");
    }

    /// Adds the cost of this time, as it was and as it would have been without the pilot.
    pub(crate) fn cost(&mut self, ns: u64) {
        let (seconds, settings) = (ns as f64 / 1e9, &self.settings);
        for vm in &mut self.vms {
            let scope = vm.scope();
            let setting = &settings.0[&scope];
            if setting.is_theirs || vm.seen.goal.is_none() {
                continue;
            }
            let follows = setting.own.is_none();
            if follows {
                vm.found_ns = settings.without(Scope::Host);
            }
            let of = |ns: u32| seconds * vm.load.cost(ns);
            let (actual, found) = (of(settings.in_force(scope)), of(vm.found_ns));
            if !follows {
                vm.costs.add(actual, found);
            } else if !vm.seen.polls_itself {
                // By themselves they may lose where others gain more.
                self.laws.following.add(actual, found);
            }
        }
    }

    /// A VM that was there for an hour has lost no more than allowed.
    pub(crate) fn ended(&mut self, vm: &Vm) {
        let costs = &vm.costs;
        self.laws.all.add(costs.actual, costs.found);
        if self.now - vm.came_ns >= HOUR && costs.found > 0.0 {
            costs.are_bounded(&format!("{:?}", vm.scope()));
        }
    }

    /// The end: all is as it was after an undo, and neither a VM nor those that follow the parameter lost too much.
    pub(crate) fn ends(&mut self) {
        for vm in std::mem::take(&mut self.vms) {
            self.ended(&vm);
        }
        let following = &self.laws.following;
        self.laws.all.add(following.actual, following.found);
        following.are_bounded("VMs that follow the parameter");
        self.settings.can_be_undone();
    }
}

/// A setting that is kept and restored in turn, each two minutes, breaks the law of an hour; each half hour that of a day.
#[test]
fn the_laws_of_oscillation_can_be_broken() {
    let (day, minute) = (24 * HOUR, 60 * SECOND);
    let each = |gap: u64| -> Vec<u64> { (0..2 * day / gap).map(|n| HOUR + n * gap).collect() };
    assert!(too_often(&each(2 * minute), HOUR, SETTLED));
    let slow = each(30 * minute);
    assert!(!too_often(&slow, HOUR, SETTLED));
    assert!(too_often(&slow, day, SETTLED_IN_A_DAY));
}
