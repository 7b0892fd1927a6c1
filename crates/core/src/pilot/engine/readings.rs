//! VMs that are there, the settings in force, and whether another program has set them.

use std::collections::BTreeSet;

use super::super::decision::{Decision, Kind};
use super::super::evidence::Evidence;
use super::super::goals::Parameters;
use super::super::guards;
use super::super::input::{Ceiling, Counts, Held, Scope};
use super::super::member::Member;
use super::super::memory::OfTarget;
use super::super::unit::{Place, State, Unit, is_same};
use super::super::view::Compared;
use super::{Pilot, Purpose, Setup};
use crate::explain::HABIT;
use crate::ids::VmKey;
use crate::kvm::Knobs;

/// Whether the setting in force is neither the pilot's nor the one that the pilot found.
fn is_unknown(scope: Scope, place: &Place, memory: Option<&OfTarget>) -> bool {
    let held = place.held.iter().flat_map(|held| [held.ours, held.before]);
    let kept = memory.into_iter().flat_map(|of| {
        let set = of.set.into_iter().chain(of.trial_from);
        set.chain([of.found])
    });
    let mut known = held.chain(kept);
    !known.any(|known| is_same(scope, known, place.now))
}

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
        self.place();
        let mut decisions = self.each(&[], Self::is_theirs);
        decisions.extend(self.each(&[], Self::let_go));
        decisions.extend(self.each(&[], Self::take_goals));
        decisions
    }

    /// Where a VM has another goal, a trial ends, and what was kept by the one before is restored.
    fn take_goals(&mut self, unit: &mut Unit) -> Vec<Decision> {
        let why = "its goal has changed";
        if !unit.take_goals(|vm| Some(self.members.get(vm)?.weight_milli())) {
            return Vec::new();
        }
        let mut ended = self.end_trial(unit, why);
        unit.forget_measured(self.now_ns);
        let is_theirs = matches!(unit.state, State::HandsOff);
        if unit.set.is_some() && !is_theirs {
            // Also where the trial goes back to what was kept by the goal before.
            unit.owe_found(why, self.now_ns);
            for back in &mut ended {
                back.change = Some(unit.change_to(unit.found));
                back.is_made = true;
            }
        }
        ended
    }

    /// Facts about the earlier load no longer count. A back-off ends with its load: for several VMs, with the load of
    /// most of their halts. The back-off does not end where contention for the CPUs began or ceased at the same time:
    /// the change of load is the host's then.
    fn is_unlike(&mut self, vm: VmKey, compared: Compared) {
        let [before, _, now] = self.pressures;
        let of_host = before.zip(now).is_some_and(|(a, b)| (a - b).abs() >= HABIT);
        let members = &self.members;
        let halts = |vm: &VmKey| members.get(vm).map_or(0, Member::halts);
        for unit in self
            .units
            .values_mut()
            .filter(|unit| unit.place.members.contains(&vm))
        {
            unit.is_new = false;
            let all: u64 = unit.place.members.iter().map(halts).sum();
            let is_most = unit.place.members.len() == 1 || 2 * halts(&vm) > all;
            if compared != Compared::Phase || !is_most || of_host {
                continue;
            }
            // The failures happened under another load.
            unit.known.failed = 0;
            if matches!(unit.state, State::BackOff) && unit.set.is_none() {
                unit.not_before_ns = self.now_ns;
            }
        }
    }

    /// The targets that there are, each with its VMs.
    fn places(&self, knobs: Knobs) -> Vec<(Scope, Place)> {
        let with = |halt_poll_ns| Knobs {
            halt_poll_ns,
            ..knobs
        };
        let (mut places, mut follow) = (Vec::new(), Vec::new());
        let mut is_needed = false;
        for vm in &self.seen.vms {
            let is_excluded = vm.goal.is_none() || vm.polls_itself;
            let (own, may_be_set) = (vm.ceiling.own(), self.setup.limits.ceilings);
            let is_settable = vm.ceiling != Ceiling::Fixed;
            if !is_excluded && own.is_none() {
                follow.push(vm.key);
                is_needed |= !(is_settable && may_be_set);
            }
            // Also of one that is excluded: an earlier run may have set it.
            if is_settable && (may_be_set || vm.held.is_some()) {
                let place = Place {
                    members: vec![vm.key],
                    now: own.map_or(knobs, with),
                    held: vm.held.map(|held| Held {
                        before: with(held.before),
                        ours: with(held.ours),
                    }),
                    is_excluded: is_excluded || !may_be_set,
                    is_read: true,
                };
                places.push((Scope::Vm(vm.key), place));
            }
        }
        // Where each VM can be given a ceiling, that is the smaller change. Where not, all that follow them change with them.
        let is_excluded = self.setup.limits.parameters == Parameters::Never || !is_needed;
        // Also where they are not to be set: an earlier run may have set them.
        if !is_excluded || self.seen.host.held.is_some() {
            let place = Place {
                members: follow,
                now: knobs,
                held: self.seen.host.held,
                is_excluded,
                is_read: true,
            };
            places.push((Scope::Host, place));
        }
        places
    }

    fn place(&mut self) {
        for unit in self.units.values_mut() {
            unit.place.is_read = false;
        }
        let Some(knobs) = self.seen.host.knobs else {
            // The setting in force is not known.
            return;
        };
        let places = self.places(knobs);
        // State of a target stays, also while the target is not to be set: the setting to restore, and whose it is.
        let here: BTreeSet<VmKey> = self.seen.vms.iter().map(|vm| vm.key).collect();
        let is_here = |scope: &Scope| match scope {
            Scope::Vm(vm) => here.contains(vm),
            Scope::Host => true,
        };
        self.setup.memory.targets.retain(|of| is_here(&of.scope));
        self.units.retain(|scope, unit| {
            // Where it has a place, that says so.
            unit.place.is_excluded = true;
            is_here(scope)
        });
        let units = &self.units;
        self.collecting.take_if(
            |(purpose, _)| matches!(purpose, Purpose::Period(scope) if !units.contains_key(scope)),
        );
        for (scope, place) in places {
            if let Some(unit) = self.units.get_mut(&scope) {
                unit.place = place;
                continue;
            }
            let earlier = &mut self.setup.memory.targets;
            let memory = earlier.extract_if(.., |of| of.scope == scope).next();
            let is_adopted = !(self.takes_over && is_unknown(scope, &place, memory.as_ref()));
            let mut unit = Unit::new(scope, place, self.now_ns);
            if is_adopted {
                unit.owed = unit.adopt(memory);
            }
            if unit.owed.is_some() {
                "an earlier run tried it, and did not keep it".clone_into(&mut unit.why);
            }
            self.units.insert(scope, unit);
        }
    }

    /// Restores what was set of a target that the pilot is no longer to set. The host's parameters stay when the last VM
    /// that follows them has gone; a trial of them ends.
    fn let_go(&mut self, unit: &mut Unit) -> Vec<Decision> {
        if !unit.place.is_excluded {
            return Vec::new();
        }
        let why = "the pilot is no longer to set it";
        let decisions = self.end_trial(unit, why);
        let stays = unit.scope == Scope::Host && self.setup.limits.parameters != Parameters::Never;
        let is_theirs = matches!(unit.state, State::HandsOff);
        if !stays && !is_theirs && unit.set.is_some() && unit.owed.is_none() {
            unit.owe_found(why, self.now_ns);
        }
        decisions
    }

    /// No period of a target is recorded any more.
    pub(super) fn drop_period(&mut self, scope: Scope) {
        let collecting = &mut self.collecting;
        collecting.take_if(|(purpose, _)| *purpose == Purpose::Period(scope));
    }

    /// A look under way at one of these VMs is dropped: it would hold halts under two settings.
    pub(super) fn drop_look_at(&mut self, vms: &[VmKey]) {
        self.collecting.take_if(|(purpose, wanted)| {
            *purpose == Purpose::Look && wanted.vms.iter().any(|vm| vms.contains(vm))
        });
    }

    /// Whether another program has set a target; it is left to that program from now on.
    fn is_theirs(&mut self, unit: &mut Unit) -> Option<Decision> {
        let scope = unit.scope;
        let mut vms = self.seen.vms.iter();
        let vm = vms.find(|vm| Scope::Vm(vm.key) == scope);
        let ceiling = vm.map(|vm| vm.ceiling);
        let has_answered = vm.is_none_or(|vm| vm.has_answered);
        let follows = ceiling == Some(Ceiling::Follows);
        if matches!(unit.state, State::HandsOff) {
            return None;
        }
        if follows && unit.set.is_none() {
            // It has none of its own, and takes what the host's parameter is; what the pilot found is what that was.
            unit.found = unit.place.now;
            let host = &self.seen.host;
            let held = host.held.filter(|held| Some(held.ours) == host.knobs);
            unit.followed = Some(held.map_or(unit.place.now, |held| held.before));
            return None;
        }
        // The host's other parameters may change under a ceiling of a VM.
        if let Scope::Vm(_) = scope {
            unit.found = Knobs {
                halt_poll_ns: unit.found.halt_poll_ns,
                ..unit.place.now
            };
            unit.set = unit.set.map(|set| Knobs {
                halt_poll_ns: set.halt_poll_ns,
                ..unit.place.now
            });
        }
        let expected = unit.in_force();
        // One whose VMM can no longer be asked says nothing of it.
        let is_own = matches!(ceiling, Some(Ceiling::Own(_)));
        let has_own = is_own && unit.followed.is_some() && unit.set.is_none();
        if is_same(scope, expected, unit.place.now) && !has_own {
            // A change that failed was not made, as is known once its VMM answers.
            unit.failing.is_unsure &= !(unit.place.is_read && has_answered);
            return None;
        }
        if unit.was_made() {
            self.forget(unit);
            return None;
        }
        if unit.place.is_excluded && unit.set.is_none() {
            return None;
        }
        let (now, before) = (unit.place.now.halt_poll_ns, expected.halt_poll_ns);
        let what = if has_own {
            format!(
                "it has a ceiling of its own now, {now} ns: it was set externally, and is left alone"
            )
        } else {
            format!(
                "halt_poll_ns is {now} and was {before}: it was modified externally, and is left alone"
            )
        };
        Some(self.hands_off(unit, what))
    }

    /// Leaves a target alone for good.
    pub(super) fn hands_off(&mut self, unit: &mut Unit, why: String) -> Decision {
        self.drop_period(unit.scope);
        unit.owed = None;
        unit.become_(State::HandsOff, why.clone(), self.now_ns);
        Decision {
            change: None,
            is_made: false,
            ..Self::decision(unit, Kind::HandsOff, unit.found, why)
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
        for unit in self.units.values_mut() {
            let Some(answer) = &unit.answer else {
                continue;
            };
            // Periods of a trial are measured one by one.
            let is_ours = !unit.place.is_excluded && !matches!(unit.state, State::HandsOff);
            if unit.trial().is_some() || !is_ours {
                continue;
            }
            let members = unit
                .place
                .members
                .iter()
                .filter_map(|vm| self.members.get(vm));
            let halts: u64 = members.map(Member::halts).sum();
            let cost_ns = halts as f64 * answer.cost_per_halt_ns;
            let off_by = if unit.set.is_some() { margin } else { 0.0 };
            unit.known.regret.add(cost_ns, &answer.found_ratio, off_by);
            if let (Some(choice), true) = (&answer.choice, unit.would.is_some()) {
                unit.known.regret.would_save(cost_ns, &choice.gain, margin);
            }
        }
    }
}
