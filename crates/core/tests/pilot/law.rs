//! What must hold, whatever happens.

use std::collections::{BTreeMap, VecDeque};

use haltwise_core::explain::HABIT;
use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::{Decision, Kind};
use haltwise_core::pilot::input::{HostSeen, Scope};
use haltwise_core::pilot::regret::MOST;

use super::journal::{Machine, PARAM_NS};
use super::world::{SECOND, SimVm};

/// Changes of one VM in an hour, at most: what the pilot allows itself, and what it restores on top.
const CHANGES: usize = 130;

/// Settings of one VM that are settled in an hour: kept, gone back from, restored.
const SETTLED: usize = 24;

#[derive(Debug, Default)]
pub(crate) struct Laws {
    host: HostSeen,
    /// A VM follows the host's parameter that is to be left alone.
    is_shared: bool,
    /// Whether the pilot may act; otherwise it only restores.
    pub(crate) may_act: bool,
    changes: BTreeMap<Scope, VecDeque<u64>>,
    settled: BTreeMap<Scope, VecDeque<u64>>,
    left: BTreeMap<Scope, u64>,
    pub(crate) counts: BTreeMap<Kind, u64>,
    /// The largest loss of a VM that was there for an hour, as a share.
    pub(crate) largest_loss: f64,
    /// What all VMs cost, and would have cost as found.
    pub(crate) actual: f64,
    pub(crate) found: f64,
    /// VMs together for as long as they follow the host's parameter.
    pub(crate) following: Following,
}

/// Sums of VMs that follow the host's parameter, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Following {
    actual: f64,
    found: f64,
    /// What a minute of each of their phases costs.
    pub(crate) unknown: f64,
}

impl Following {
    pub(crate) fn add(&mut self, actual: f64, found: f64) {
        (self.actual, self.found) = (self.actual + actual, self.found + found);
    }
}

fn within_an_hour(times: &mut VecDeque<u64>, now: u64) -> usize {
    times.push_back(now);
    while times.front().is_some_and(|at| now - at > 3_600 * SECOND) {
        times.pop_front();
    }
    times.len()
}

impl Laws {
    pub(crate) fn read(&mut self, host: &HostSeen, is_shared: bool) {
        (self.host, self.is_shared) = (host.clone(), is_shared);
    }

    /// No guard is broken, and what is somebody else's is left alone.
    pub(crate) fn decided(&mut self, decision: &Decision, machine: &Machine, now: u64) {
        *self.counts.entry(decision.kind).or_default() += 1;
        if decision.kind == Kind::HandsOff {
            assert!(
                machine.theirs.contains_key(&decision.scope),
                "nobody else has set it: {decision:?}"
            );
            self.left.insert(decision.scope, now);
            return;
        }
        let Some(change) = decision.change.filter(|_| decision.is_made) else {
            return;
        };
        assert!(
            !self.left.contains_key(&decision.scope),
            "it is theirs: {decision:?}"
        );
        assert!(
            self.may_act || matches!(decision.kind, Kind::GoBack | Kind::Restore),
            "it may not act: {decision:?}"
        );
        let raises = change.to.halt_poll_ns > change.from.halt_poll_ns;
        let is_new = matches!(decision.kind, Kind::On | Kind::Again | Kind::Try);
        if decision.scope == Scope::Host {
            assert!(self.host.is_writable, "it cannot be written: {decision:?}");
        }
        if is_new && decision.scope == Scope::Host {
            assert!(
                !self.is_shared,
                "a VM follows it that is to be left alone: {decision:?}"
            );
        }
        if is_new {
            assert!(!self.host.sched_ext, "under sched_ext: {decision:?}");
            let pressure = self.host.cpu_pressure.share().unwrap_or(0.0);
            assert!(
                !raises || pressure < HABIT,
                "under CPU pressure: {decision:?}"
            );
        }
    }

    /// No target changes too often, and none is settled again and again.
    pub(crate) fn made(&mut self, decision: &Decision, now: u64) {
        let changes = within_an_hour(self.changes.entry(decision.scope).or_default(), now);
        assert!(
            changes <= CHANGES,
            "{changes} changes within an hour: {decision:?}"
        );
        if !decision.kind.is_period() {
            let settled = within_an_hour(self.settled.entry(decision.scope).or_default(), now);
            assert!(
                settled <= SETTLED,
                "{settled} times settled within an hour: {decision:?}"
            );
        }
    }

    /// Nothing is set that the journal does not know.
    pub(crate) fn is_known(machine: &Machine) {
        let own = machine.ceilings.iter();
        let own = own.filter_map(|(vm, own)| {
            let first = machine.at_first.get(vm).copied().flatten();
            Some((Scope::Vm(*vm), (*own)?, first))
        });
        let param = (Scope::Host, machine.param_ns, Some(PARAM_NS));
        for (scope, now, first) in own.chain([param]) {
            let entry = machine.journal.get(&scope);
            let known = [
                first,
                machine.theirs.get(&scope).copied(),
                entry.and_then(|entry| entry.ours),
                entry.and_then(|entry| entry.intent),
            ];
            assert!(
                known.contains(&Some(now)),
                "{scope:?} has {now}, and the journal {entry:?}"
            );
        }
    }

    /// VMs that follow the host's parameter lose no more than that together.
    pub(crate) fn followed(&mut self) {
        let of = &self.following;
        self.actual += of.actual;
        self.found += of.found;
        assert!(
            of.actual <= of.found * (1.0 + MOST) + of.unknown,
            "VMs that follow the parameter lost {:.1} %",
            100.0 * (of.actual / of.found - 1.0)
        );
    }

    /// Regret is within its bound, beside what the first minute of each phase may cost.
    pub(crate) fn ended(&mut self, vm: VmKey, of: &SimVm, machine: &Machine, now: u64) {
        (self.actual, self.found) = (self.actual + of.actual, self.found + of.found);
        if now - of.came_ns < 3_600 * SECOND || of.found == 0.0 {
            return;
        }
        let share = of.actual / of.found - 1.0;
        self.largest_loss = self.largest_loss.max(share);
        let allowed = of.found * (1.0 + MOST) + of.unknown;
        let theirs = machine.is_theirs(vm);
        assert!(
            of.actual <= allowed,
            "{vm:?} lost {:.1} % in {} phases (theirs: {theirs})",
            share * 100.0,
            of.phases
        );
    }
}
