//! What must hold, whatever happens.

use std::collections::{BTreeMap, VecDeque};

use haltwise_core::explain::HABIT;
use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::{Decision, Kind};
use haltwise_core::pilot::input::{HostSeen, Scope};
use haltwise_core::pilot::regret::MOST;

use super::journal::Machine;
use super::world::{SECOND, SimVm};

/// Changes of one VM in an hour, at most: what the pilot allows itself, and what it restores on top.
const CHANGES: usize = 130;

/// Settings of one VM that are settled in an hour: kept, gone back from, restored.
const SETTLED: usize = 24;

#[derive(Debug, Default)]
pub(crate) struct Laws {
    host: HostSeen,
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
}

fn within_an_hour(times: &mut VecDeque<u64>, now: u64) -> usize {
    times.push_back(now);
    while times.front().is_some_and(|at| now - at > 3_600 * SECOND) {
        times.pop_front();
    }
    times.len()
}

impl Laws {
    pub(crate) fn read(&mut self, host: &HostSeen) {
        self.host = host.clone();
    }

    /// No guard is broken, and what is somebody else's is left alone.
    pub(crate) fn decided(&mut self, decision: &Decision, machine: &Machine, now: u64) {
        *self.counts.entry(decision.kind).or_default() += 1;
        let Scope::Vm(vm) = decision.scope else {
            panic!("the parameters cannot be written: {decision:?}");
        };
        if decision.kind == Kind::HandsOff {
            assert!(
                machine.theirs.contains_key(&vm),
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
        if is_new {
            assert!(!self.host.sched_ext, "under sched_ext: {decision:?}");
            let pressure = self.host.cpu_pressure.unwrap_or(0.0);
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
        for (vm, own) in &machine.ceilings {
            let Some(own) = own else { continue };
            let entry = machine.journal.get(vm);
            let known = [
                machine.at_first.get(vm).copied(),
                machine.theirs.get(vm).copied(),
                entry.and_then(|entry| entry.ours),
                entry.and_then(|entry| entry.intent),
            ];
            assert!(
                known.contains(&Some(*own)),
                "{vm:?} has {own}, and the journal {entry:?}"
            );
        }
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
        let theirs = machine.theirs.contains_key(&vm);
        assert!(
            of.actual <= allowed,
            "{vm:?} lost {:.1} % in {} phases (theirs: {theirs})",
            share * 100.0,
            of.phases
        );
    }
}
