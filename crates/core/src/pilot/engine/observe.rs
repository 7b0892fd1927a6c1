//! First part of a step: what the readings say of VMs and of targets, and who has set what is in force.

use std::collections::BTreeSet;

use super::super::decision::Decision;
use super::super::evidence::Evidence;
use super::super::input::{Counts, Parameters, Scope};
use super::super::member::Member;
use super::super::target::{SetBy, State, Target};
use super::super::view::Compared;
use super::super::{guards, observed};
use super::{Pilot, Purpose, Setup};
use crate::explain::HABIT;
use crate::ids::VmKey;

impl<E: Evidence> Pilot<E> {
    pub(super) fn take_readings(&mut self) -> Vec<Decision> {
        let seen = std::mem::take(&mut self.seen);
        let here: BTreeSet<VmKey> = seen.vms.iter().map(|vm| vm.key).collect();
        self.members.retain(|vm, _| here.contains(vm));
        for vm in &seen.vms {
            let member = self.members.entry(vm.key);
            let member = member.or_insert_with(|| Member::new(vm.clone(), self.now_ns));
            let (is_dropped, compared) = member.take(vm, seen.counted, self.now_ns);
            self.dropped += u64::from(is_dropped);
            if compared != Compared::Same {
                self.is_unlike(vm.key, compared);
            }
        }
        self.seen = seen;
        self.observe_targets();
        let mut decisions = self.each(&[], Self::is_theirs);
        decisions.extend(self.each(&[], Self::let_go));
        decisions.extend(self.each(&[], Self::take_goals));
        decisions
    }

    /// Where a VM has another goal, a trial ends, and what was kept by the one before is restored.
    fn take_goals(&mut self, target: &mut Target) -> Option<Decision> {
        let why = "its goal has changed";
        if !target.take_goals(|vm| Some(self.members.get(vm)?.weight_milli())) {
            return None;
        }
        let ended = self.end_trial(target, why);
        target.forget_measured(self.now_ns);
        if target.set.is_none() || target.is_hands_off() {
            return ended;
        }
        // Also where the trial goes back to what was kept by the goal before.
        target.owe_found(why, self.now_ns);
        ended.map(|back| Decision {
            expected: back.expected,
            ..target.decision(back.kind, target.found, back.why)
        })
    }

    /// Facts about the earlier load no longer count. A back-off ends with its load: for several VMs, with the load of
    /// most of their halts. The back-off does not end where contention for the CPUs began or ceased at the same time:
    /// the change of load is the host's then.
    fn is_unlike(&mut self, vm: VmKey, compared: Compared) {
        let [before, _, now] = self.pressures;
        let of_host = before.zip(now).is_some_and(|(a, b)| (a - b).abs() >= HABIT);
        let halts = self.members.get(&vm).map_or(0, Member::halts);
        let targets = self.targets.values_mut();
        for target in targets.filter(|it| it.observed.members.contains(&vm)) {
            target.is_new = false;
            let members = target.observed.members_of(&self.members);
            let all: u64 = members.map(Member::halts).sum();
            let is_most = target.observed.members.len() == 1 || 2 * halts > all;
            if compared != Compared::Phase || !is_most || of_host {
                continue;
            }
            // The failures happened under another load.
            target.known.failed = 0;
            if matches!(target.state, State::BackOff) && target.set.is_none() {
                target.pause.until_ns = self.now_ns;
            }
        }
    }

    fn observe_targets(&mut self) {
        for target in self.targets.values_mut() {
            target.observed.has_answered = false;
        }
        let Some(observed) = observed::targets(&self.seen, &self.setup.limits) else {
            return;
        };
        // State of a target stays, also while the target is not to be set: the setting to restore, and whose it is.
        let members = &self.members;
        let is_here = |scope: &Scope| match scope {
            Scope::Vm(vm) => members.contains_key(vm),
            Scope::Host => true,
        };
        self.setup.memory.targets.retain(|of| is_here(&of.scope));
        self.targets.retain(|scope, target| {
            // Where this reading has it, the reading says so.
            target.observed.is_excluded = true;
            is_here(scope)
        });
        let targets = &self.targets;
        self.collecting.take_if(
            |(purpose, _)| matches!(purpose, Purpose::Period(scope) if !targets.contains_key(scope)),
        );
        for (scope, observed) in observed {
            if let Some(target) = self.targets.get_mut(&scope) {
                target.observed = observed;
                continue;
            }
            let earlier = &mut self.setup.memory.targets;
            let memory = earlier.extract_if(.., |of| of.scope == scope).next();
            let mut target = Target::new(scope, observed, self.now_ns);
            target.adopt(memory, self.takes_over);
            self.targets.insert(scope, target);
        }
    }

    /// Restores what was set of a target that the pilot is no longer to set. The host's parameters stay when the last VM
    /// that follows them has gone; a trial of them ends.
    fn let_go(&mut self, target: &mut Target) -> Option<Decision> {
        if !target.observed.is_excluded {
            return None;
        }
        let why = "the pilot is no longer to set it";
        let ended = self.end_trial(target, why);
        let stays =
            target.scope == Scope::Host && self.setup.limits.parameters != Parameters::Never;
        let is_ours = target.set.is_some() && !target.is_hands_off();
        if !stays && is_ours && target.owed.is_none() {
            target.owe_found(why, self.now_ns);
        }
        ended
    }

    /// Whether another program has set a target; it is left to that program from now on.
    fn is_theirs(&mut self, target: &mut Target) -> Option<Decision> {
        match target.take_setting() {
            SetBy::Known => None,
            SetBy::Moved(why) => {
                self.is_under_another(target);
                self.forget(target);
                (target.answer, target.is_new) = (None, false);
                // Its period under way holds halts under two settings.
                self.end_trial(target, why)
            }
            SetBy::Another(why) => Some(self.hands_off(target, why)),
        }
    }

    pub(super) fn guard(&mut self) {
        // Where one is not known, the sum of all is not known.
        let counts = self.members.values().map(|member| member.counts.as_ref());
        let polled: Option<f64> = counts.map(|counts| counts.map(Counts::polled_cpus)).sum();
        let Setup { rule, limits, .. } = &self.setup;
        self.guards = guards::look(&self.seen, *rule, limits, polled);
    }

    /// Adds up what the time since the last counts has cost, and would have cost as found.
    pub(super) fn account(&mut self) {
        let margin = self.errors().margin();
        let [before_ns, now_ns] = self.counted_ns;
        for target in self.targets.values_mut() {
            let Some(answer) = &target.answer else {
                continue;
            };
            // Periods of a trial are measured one by one.
            if target.trial().is_some() || target.is_left() {
                continue;
            }
            let members = target.observed.members_of(&self.members);
            let halts: u64 = members.map(Member::halts).sum();
            let rest_ns = now_ns - target.measured_until_ns.clamp(before_ns, now_ns);
            let part = rest_ns as f64 / (now_ns - before_ns).max(1) as f64;
            let cost_ns = part * halts as f64 * answer.cost_per_halt_ns;
            let off_by = if target.set.is_some() { margin } else { 0.0 };
            let regret = &mut target.known.regret;
            regret.add(cost_ns, &answer.found_ratio, off_by);
            if let (Some(choice), true) = (&answer.choice, target.would.is_some()) {
                regret.would_save(cost_ns, &choice.gain, margin);
            }
        }
    }
}
