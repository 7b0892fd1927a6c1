//! Third part of a step: what comes of a change, and what no longer counts after it.

use super::super::decision::{Decision, Kind, Refusal};
use super::super::evidence::Evidence;
use super::super::input::Scope;
use super::super::member::Member;
use super::super::target::{State, Target, is_same};
use super::{Pilot, Purpose};
use crate::ids::VmKey;

impl<E: Evidence> Pilot<E> {
    /// Leaves a target alone for good.
    pub(super) fn hands_off(&mut self, target: &mut Target, why: String) -> Decision {
        self.drop_period(target.scope);
        (target.owed, target.answer) = (None, None);
        target.become_(State::HandsOff, why.clone(), self.now_ns);
        Decision {
            change: None,
            is_made: false,
            ..target.decision(Kind::HandsOff, target.found, why)
        }
    }

    pub(super) fn is_made(&mut self, target: &mut Target, decision: &Decision) {
        let Some(change) = decision.change else {
            return;
        };
        let now_ns = self.now_ns;
        target.stops_following();
        let is_found = is_same(target.scope, change.to, target.found);
        target.is_at(change.to);
        self.changed_ns = now_ns;
        target.changed(now_ns);
        self.is_under_another(target);
        match decision.kind {
            Kind::On | Kind::Off => self.want_period(target),
            Kind::Again => {
                let choice = target.answer.as_ref().and_then(|answer| answer.choice);
                if let Some((choice, measured)) = choice.zip(decision.measured) {
                    target.keeps(&choice, measured);
                }
                target.become_(State::Kept, decision.why.clone(), now_ns);
                self.forget_trials(|vm| !target.observed.members.contains(vm));
            }
            // Its load has changed, or a guard has.
            Kind::Restore => self.forget_trials(|_| true),
            _ => {}
        }
        if matches!(target.state, State::Watching) && is_found {
            target.why.clone_from(&decision.why);
        }
        if !decision.kind.is_period() {
            self.forget(target);
            if !matches!(decision.kind, Kind::Keep | Kind::Again) {
                target.answer = None;
            }
        }
    }

    /// A change was not made.
    pub(super) fn is_refused(&mut self, target: &mut Target, refusal: Refusal) -> Option<Decision> {
        match refusal {
            Refusal::Ended => self.abandon(target, "its VM has ended"),
            Refusal::Moved => self.abandon(target, "it follows halt_poll_ns, which has changed"),
            Refusal::Failed(why) => self.has_failed(target, &why),
            Refusal::Theirs => {
                let why = "it was modified externally, and is left alone".to_owned();
                return Some(self.hands_off(target, why));
            }
        }
        None
    }

    /// Nothing that the pilot has set of a target is in force any more: its trial ends, and nothing is to be restored.
    fn abandon(&mut self, target: &mut Target, why: &str) {
        self.drop_period(target.scope);
        let trial_ns = target.trial_ns();
        target.is_at(target.found);
        target.answer = None;
        target.wait(trial_ns, why.to_owned(), self.now_ns);
    }

    /// The setting in force is the one before, as far as is known; a setting that is to be restored is tried again.
    fn has_failed(&mut self, target: &mut Target, why: &str) {
        self.decided.failed += 1;
        target.is_unsure = true;
        if let Some(owed) = &mut target.owed {
            owed.has_failed(self.now_ns);
            return;
        }
        let safe = target.trial().map_or(target.found, |trial| trial.from);
        if !target.has(safe) {
            target.owe(safe);
        }
        let why = format!("it could not be set: {why}");
        target.back_off(target.trial_ns(), why, self.now_ns);
    }

    /// Forgets the results of trials of these VMs.
    pub(super) fn forget_trials(&mut self, of: impl Fn(&VmKey) -> bool) {
        for (_, member) in self.members.iter_mut().filter(|(vm, _)| of(vm)) {
            member.tried = Default::default();
        }
    }

    /// Forgets the facts of a target's VMs: they were recorded under another setting than the one in force.
    pub(super) fn forget(&mut self, target: &Target) {
        for member in self.under(target.scope) {
            member.chunks.clear();
            member.looked_ns = None;
        }
    }

    /// VMs that a target's setting reaches: also those that are left alone now, and may not be later.
    fn under(&mut self, scope: Scope) -> impl Iterator<Item = &mut Member<E::Chunk>> {
        let members = self
            .members
            .iter_mut()
            .filter(move |(vm, member)| match scope {
                Scope::Vm(of) => of == **vm,
                Scope::Host => member.seen.ceiling.own().is_none(),
            });
        members.map(|(_, member)| member)
    }

    /// No period of a target is recorded any more.
    pub(super) fn drop_period(&mut self, scope: Scope) {
        let collecting = &mut self.collecting;
        collecting.take_if(|(purpose, _)| *purpose == Purpose::Period(scope));
    }

    /// The setting of a target's VMs has changed: their counts look different for that alone, and a look under way at one of
    /// them would hold halts under two settings.
    pub(super) fn is_under_another(&mut self, target: &Target) {
        for member in self.under(target.scope) {
            member.view.relearn();
        }
        let vms = &target.observed.members;
        self.collecting.take_if(|(purpose, wanted)| {
            *purpose == Purpose::Look && wanted.vms.iter().any(|vm| vms.contains(vm))
        });
    }
}
