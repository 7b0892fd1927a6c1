//! Laws that must hold, whatever happens.

use std::collections::{BTreeMap, VecDeque};

use haltwise_core::explain::HABIT;
use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::{Change, Decision, Kind};
use haltwise_core::pilot::input::{Ceiling, HostSeen, Pressure, Scope, VmSeen};
use haltwise_core::pilot::regret::MOST;
use haltwise_core::pilot::{Limits, Parameters};

use super::host::{FOUND_NS, SECOND};
use super::journal::Machine;
use super::world::SimVm;

/// Changes of one VM in an hour, at most: what the pilot allows itself, and what it restores on top.
const CHANGES: usize = 130;

/// Settings of one VM that are settled in an hour: kept, gone back from, restored.
const SETTLED: usize = 24;

/// The same in a day while loads stay as they are. What did not last, or failed, is tried again after 180 s at the soonest (ten
/// times as long as the shortest trial takes), then after twice that: nine times in a day, with two changes each. Three more are
/// better settings that are kept one after the other.
const SETTLED_IN_A_DAY: usize = 21;

const HOUR: u64 = 3_600 * SECOND;

/// Whether settings were settled at more of these times within so long than that; if so, when.
fn too_often(times: &[u64], within: u64, most: usize) -> Option<u64> {
    let each = times.iter().zip(times.iter().skip(most));
    let mut each = each.filter(|(first, last)| *last - *first <= within);
    each.next().map(|(_, last)| *last)
}

/// Polling of all these VMs, in CPUs, where counted.
pub(crate) fn polled(vms: &[VmSeen]) -> Option<f64> {
    let counts = |vm: &VmSeen| vm.counts.filter(|counts| counts.is_possible(vm.vcpus));
    let each = vms.iter().map(|vm| Some(counts(vm)?.poll_ns as f64 / 10e9));
    each.sum()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Nothing,
    /// Other tasks want the CPUs, or it polls what it may.
    Guard,
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct Laws {
    host: HostSeen,
    /// A VM follows the host's parameter that is to be left alone.
    is_shared: bool,
    /// Polling of all VMs by the last reading.
    pub(crate) polled: Option<f64>,
    /// Limits of the pilot; if the pilot may not act, the pilot only restores.
    pub(crate) limits: Limits,
    changes: BTreeMap<Scope, VecDeque<u64>>,
    settled: BTreeMap<Scope, Vec<u64>>,
    /// For how many readings something stays that has to go.
    stays: BTreeMap<Scope, u32>,
    left: BTreeMap<Scope, u64>,
    pub(crate) counts: BTreeMap<Kind, u64>,
    /// The largest loss of a VM that was there for an hour, as a share.
    pub(crate) largest_loss: f64,
    pub(crate) all: Costs,
    /// VMs together for as long as they follow the host's parameter.
    pub(crate) following: Costs,
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
    pub(crate) fn add(&mut self, actual: f64, found: f64) {
        (self.actual, self.found) = (self.actual + actual, self.found + found);
    }

    /// Loss, as a share.
    fn loss(&self) -> f64 {
        self.actual / self.found - 1.0
    }

    /// Regret is within its bound, beside what the first minute of each phase may cost.
    fn is_bounded(&self, of: &str) {
        let allowed = self.found * (1.0 + MOST) + self.unknown;
        let percent = 100.0 * self.loss();
        assert!(self.actual <= allowed, "{of} lost {percent:.1} %");
    }
}

fn within_an_hour(times: &mut VecDeque<u64>, now: u64) -> usize {
    times.push_back(now);
    while times.front().is_some_and(|at| now - at > HOUR) {
        times.pop_front();
    }
    times.len()
}

impl Laws {
    pub(crate) fn read(&mut self, host: &HostSeen, is_shared: bool) {
        (self.host, self.is_shared) = (host.clone(), is_shared);
    }

    /// No guard is broken, and settings of other programs are left alone.
    pub(crate) fn decided(&mut self, decision: &Decision, machine: &Machine, now: u64) {
        *self.counts.entry(decision.kind).or_default() += 1;
        if let (Kind::Try, Some(change)) = (decision.kind, decision.change) {
            self.begins(decision, change);
        }
        let holds = |holds: bool, law: &str| assert!(holds, "broken: {law}: {decision:?}");
        if decision.kind == Kind::HandsOff {
            let is_theirs = machine.theirs.contains_key(&decision.scope);
            holds(is_theirs, "another program has set it");
            self.left.insert(decision.scope, now);
            return;
        }
        let Some(change) = decision.change.filter(|_| decision.is_made) else {
            return;
        };
        let is_left = self.left.contains_key(&decision.scope);
        holds(!is_left, "it is not theirs");
        let restores = matches!(decision.kind, Kind::GoBack | Kind::Restore);
        holds(self.limits.may_act || restores, "it may act");
        if matches!(decision.kind, Kind::On | Kind::Again) {
            self.begins(decision, change);
        }
        let is_writable = decision.scope != Scope::Host || self.host.is_writable;
        holds(is_writable, "it can be written");
    }

    /// Nothing is begun that a guard, or the configuration, keeps from.
    fn begins(&self, decision: &Decision, change: Change) {
        let holds = |holds: bool, law: &str| assert!(holds, "broken: {law}: {decision:?}");
        let parameters = self.limits.parameters;
        if decision.scope == Scope::Host {
            let may_share = !self.is_shared || parameters == Parameters::Shared;
            holds(may_share, "no VM follows it that is to be left alone");
            holds(parameters != Parameters::Never, "it may be set");
        }
        let [from_ns, to_ns] = [change.from, change.to].map(|knobs| knobs.halt_poll_ns);
        holds(to_ns <= self.limits.max_ceiling_ns, "within the limit");
        holds(!self.host.sched_ext, "not under sched_ext");
        let keeps = self.keeps();
        // A trial under way goes on while the value is not known.
        let goes_on = keeps == Keeps::Unknown && decision.kind == Kind::On;
        let may_poll_more = keeps == Keeps::Nothing || goes_on;
        holds(may_poll_more || to_ns <= from_ns, "no more polling");
    }

    /// Guard against more polling, by the last reading.
    fn keeps(&self) -> Keeps {
        let host = &self.host;
        let wanted = (f64::from(host.cpus) / 4.0).min(1.0);
        let free = host.busy_cpus.map(|busy| f64::from(host.cpus) - busy);
        let pressure = match host.cpu_pressure {
            Pressure::NotYet => None,
            Pressure::NotThere => Some(0.0),
            Pressure::Share(share) => Some(share),
        };
        let limit = self.limits.max_poll_cpu_percent;
        let is_over = match limit {
            None => Some(false),
            Some(limit) => self.polled.map(|polled| 100.0 * polled >= limit),
        };
        let all = [
            pressure.map(|it| it >= HABIT),
            free.map(|it| it < wanted),
            is_over,
        ];
        match () {
            () if all.contains(&Some(true)) => Keeps::Guard,
            () if all.contains(&None) => Keeps::Unknown,
            () => Keeps::Nothing,
        }
    }

    /// A setting that polls more than the setting found is restored within two readings in which a guard forbids more
    /// polling, and so is a ceiling above the limit. `now` is the ceiling in force; `None` if another process set it.
    pub(crate) fn stays(&mut self, scope: Scope, now: Option<u32>, found: u32) {
        let limits = &self.limits;
        let is_never = scope == Scope::Host && limits.parameters == Parameters::Never;
        let is_forbidden = |now: u32| {
            let polls_more = now > found && self.keeps() == Keeps::Guard;
            polls_more || (now != found && (is_never || now > limits.max_ceiling_ns))
        };
        let must_go = now.is_some_and(is_forbidden);
        let stays = self.stays.entry(scope).or_default();
        *stays = if must_go { *stays + 1 } else { 0 };
        assert!(
            *stays < 2,
            "{scope:?} has {now:?} in place of {found}, which has to go: {:?} {:?}",
            self.host,
            self.limits
        );
    }

    /// A change that could not be written has another two readings.
    pub(crate) fn refused(&mut self, scope: Scope) {
        self.stays.remove(&scope);
    }

    /// The next life of the daemon has, too.
    pub(crate) fn dies(&mut self) {
        self.stays.clear();
    }

    /// No target changes too often, and none is settled again and again.
    pub(crate) fn made(&mut self, decision: &Decision, now: u64) {
        let changes = within_an_hour(self.changes.entry(decision.scope).or_default(), now);
        assert!(
            changes <= CHANGES,
            "{changes} changes within an hour: {decision:?}"
        );
        if !decision.kind.is_period() {
            let settled = self.settled.entry(decision.scope).or_default();
            settled.push(now);
            let last = settled.len().saturating_sub(SETTLED + 1);
            assert_eq!(
                too_often(&settled[last..], HOUR, SETTLED),
                None,
                "settled too often within an hour: {decision:?}"
            );
        }
    }

    /// While loads stay as they are no target is settled again and again either, however slowly.
    pub(crate) fn is_settled(&self) {
        for (scope, settled) in &self.settled {
            assert_eq!(
                too_often(settled, 24 * HOUR, SETTLED_IN_A_DAY),
                None,
                "settled too often within a day: {scope:?} {:?}",
                settled.iter().map(|at| at / SECOND).collect::<Vec<_>>()
            );
        }
    }

    /// Nothing is set that the journal does not know.
    pub(crate) fn is_known(machine: &Machine) {
        let own_of = |ceiling: &Ceiling| match ceiling {
            Ceiling::Own(ns) => Some(*ns),
            Ceiling::Follows | Ceiling::Fixed => None,
        };
        let own = machine.ceilings.iter();
        let own = own.filter_map(|(vm, ceiling)| {
            let first = machine.at_first.get(vm).and_then(own_of);
            Some((Scope::Vm(*vm), own_of(ceiling)?, first))
        });
        let param = (Scope::Host, machine.param_ns, Some(FOUND_NS));
        for (scope, now, first) in own.chain([param]) {
            let entry = machine.journal.get(&scope);
            let known = [
                first,
                machine.theirs.get(&scope).copied(),
                entry.map(|entry| entry.ours),
            ];
            assert!(
                known.contains(&Some(now)),
                "{scope:?} has {now}, and the journal {entry:?}"
            );
        }
    }

    /// VMs that follow the host's parameter lose no more than that together.
    pub(crate) fn followed(&mut self) {
        self.all.add(self.following.actual, self.following.found);
        self.following.is_bounded("VMs that follow the parameter");
    }

    /// A VM that was there for an hour has lost no more than that either.
    pub(crate) fn ended(&mut self, vm: VmKey, of: &SimVm, now: u64) {
        let costs = &of.costs;
        self.all.add(costs.actual, costs.found);
        if now - of.came_ns >= HOUR && costs.found > 0.0 {
            self.largest_loss = self.largest_loss.max(costs.loss());
            costs.is_bounded(&format!("{vm:?}"));
        }
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
