//! Third part of a step: the periods of a trial, what comes of a change, and which facts no longer count after it.

use super::super::decision::{Decision, Kind, Refusal};
use super::super::evidence::{Answer, Choice, Evidence, Measured};
use super::super::input::Scope;
use super::super::member::Member;
use super::super::memory::Proven;
use super::super::target::{Ended, State, Target, is_same};
use super::super::trial::{self, Next, Outcome, Trial};
use super::{Pilot, Purpose};
use crate::explain::HABIT;
use crate::ids::VmKey;
use crate::stats::Interval;

/// Halts of a period, some 60 MB: more is not kept of it.
const OF_PERIOD: usize = 400_000;

/// The load of an answer, whatever the setting: logarithms of its mean gap, and of halts in a second.
fn load(answer: &Answer) -> [f64; 2] {
    [
        (answer.gap_mean_ns + 1e3).ln(),
        (answer.halts_per_s + 1.0).ln(),
    ]
}

impl<E: Evidence> Pilot<E> {
    /// Sets a setting that was proven for such a load, or begins to try it.
    pub(super) fn begin(
        &mut self,
        target: &mut Target,
        answer: &Answer,
        choice: Choice,
    ) -> Vec<Decision> {
        let mut proven = target.known.proven.iter().copied();
        let proven = proven
            .find(|it| it.is_for(load(answer)))
            .filter(|it| is_same(target.scope, it.knobs, choice.knobs));
        target.is_new = false;
        let percent = choice.gain.value * 100.0;
        let why = format!("a halt costs {percent:.0} % less by what was recorded");
        if let Some(proven) = proven {
            let why = format!("{why}, and was measured to before, under such a load");
            // Others that are considered before it is made do not find room that it takes.
            self.changed_ns = self.now_ns;
            return vec![Decision {
                expected: Some(choice.gain),
                measured: Some(proven.measured),
                ..target.decision(Kind::Again, proven.knobs, why)
            }];
        }
        let announced = Decision {
            is_made: false,
            expected: Some(choice.gain),
            ..target.decision(Kind::Try, choice.knobs, why.clone())
        };
        self.trials += 1;
        let trial = Trial::new(
            target.in_force(),
            choice,
            answer,
            self.seen.host.cpu_pressure.share(),
            self.setup.seed.wrapping_add(self.trials),
        );
        self.forget_trials(|vm| target.observed.members.contains(vm));
        target.would = None;
        target.become_(State::Trial(Box::new(trial)), why, self.now_ns);
        let first = self.begin_period(target);
        [announced].into_iter().chain(first).collect()
    }

    /// The change that a period begins with, if it takes one; without, its facts are wanted at once.
    fn begin_period(&mut self, target: &Target) -> Option<Decision> {
        let trial = target.trial()?;
        let [wanted, _] = trial.settings();
        if target.has(wanted) {
            self.want_period(target);
            return None;
        }
        let kind = if trial.is_on() { Kind::On } else { Kind::Off };
        Some(Decision {
            expected: Some(trial.choice.gain),
            ..target.decision(kind, wanted, "a period of the trial")
        })
    }

    /// Begins the next period of the trial under way, unless a look is awaited first; a trial that has just begun has decided how.
    pub(super) fn go_on(&mut self, decisions: &[Decision]) -> Option<Decision> {
        let scope = self.on_trial()?;
        if self.collecting.is_some() || decisions.iter().any(|it| it.scope == scope) {
            return None;
        }
        self.with_target(scope, |pilot, target| pilot.begin_period(target))
    }

    pub(super) fn want_period(&mut self, target: &Target) {
        if let Some(trial) = target.trial() {
            let vms = target.observed.members.clone();
            let most_halts = OF_PERIOD / vms.len().max(1);
            let purpose = Purpose::Period(target.scope);
            self.want(purpose, vms, trial.parts_ns(), most_halts);
        }
    }

    pub(super) fn take_period(
        &mut self,
        target: &mut Target,
        facts: &[(VmKey, Option<E::Chunk>)],
    ) -> Option<Decision> {
        let measured = self.measure(target, facts).unwrap_or_default();
        let margin = self.errors().margin();
        let State::Trial(trial) = &mut target.state else {
            return None;
        };
        let is_on = trial.is_on();
        // The part that did not count has cost as much.
        let [_, recorded_ns] = trial.parts_ns();
        let length_ns = trial.length_ns as f64;
        let cost_ns = measured.in_ns(measured.cost_ns, length_ns, recorded_ns);
        let answer = target.answer.as_ref();
        let found_ratio = answer.map_or(1.0, |answer| answer.found_ratio.value);
        let per_halt = measured.cost_ns / measured.halts.max(1) as f64;
        let ratio = match trial.before_per_halt_ns() {
            Some(before) if is_on && per_halt > 0.0 => found_ratio * before / per_halt,
            _ => found_ratio,
        };
        let off_by = if target.set.is_some() { margin } else { 0.0 };
        let ratio = Interval::exactly(ratio);
        target.known.regret.add(cost_ns, &ratio, off_by);
        match trial.take(measured) {
            Next::Period if target.known.regret.allowance_ns() < 0.0 => {
                let why = "more than 3 % of what was found would be lost";
                self.go_back(target, why, None, true)
            }
            Next::Period => {
                if !is_on {
                    // One look at another target's VM, whose load may have changed.
                    self.plan_look(true);
                }
                None
            }
            Next::Changed => {
                self.forget(target);
                self.forget_trials(|vm| target.observed.members.contains(vm));
                self.go_back(target, "the load of its VM has changed", None, false)
            }
            Next::Keep(outcome) => self.keep(target, outcome),
            Next::Back(outcome, why) => self.go_back(target, why, outcome, true),
        }
    }

    fn measure(
        &mut self,
        target: &Target,
        facts: &[(VmKey, Option<E::Chunk>)],
    ) -> Option<Measured> {
        let trial = target.trial()?;
        let [_, other] = trial.settings();
        for (vm, chunk) in facts {
            if let Some((member, chunk)) = self.members.get_mut(vm).zip(chunk.as_ref()) {
                self.setup.evidence.learn(chunk);
                member.tried[usize::from(trial.is_on())] = Some(E::excerpt(chunk));
            }
        }
        // A VM that did not halt has no stretch.
        let recorded = facts.iter().filter_map(|(vm, chunk)| {
            let is_its = target.observed.members.contains(vm);
            let chunk = chunk.as_ref().filter(|_| is_its)?;
            Some(self.members.get(vm)?.facts(vec![chunk]))
        });
        let recorded: Vec<_> = recorded.collect();
        let measured = self.setup.evidence.measure(&recorded, other, &trial.cost);
        measured.filter(|measured| measured.halts > 0)
    }

    fn keep(&mut self, target: &mut Target, outcome: Outcome) -> Option<Decision> {
        let trial = target.trial()?.clone();
        self.setup.memory.errors.extend(outcome.error);
        let to = trial.choice.knobs;
        let measured = outcome.measured;
        if let Some(answer) = &target.answer {
            Proven {
                load: load(answer),
                knobs: to,
                measured,
            }
            .keep(&mut target.known.proven);
        }
        target.keeps(&trial.choice, measured);
        let why = format!(
            "measured: a halt costs {:.0} % less",
            -measured.value * 100.0
        );
        let kept = Decision {
            is_made: !target.has(to),
            expected: Some(trial.choice.gain),
            measured: Some(measured),
            ..target.decision(Kind::Keep, to, why.clone())
        };
        target.become_(State::Kept, why, self.now_ns);
        // Trials of others were made under what it had before.
        self.forget_trials(|vm| !target.observed.members.contains(vm));
        self.forget(target);
        Some(kept)
    }

    /// The setting before the trial holds again; `failed` where the trial speaks against the one tried.
    fn go_back(
        &mut self,
        target: &mut Target,
        why: &str,
        outcome: Option<Outcome>,
        failed: bool,
    ) -> Option<Decision> {
        let trial = target.trial()?.clone();
        let errors = &mut self.setup.memory.errors;
        errors.extend(outcome.and_then(|it| it.error));
        let is_there = target.has(trial.from);
        let back = Decision {
            is_made: !is_there,
            expected: Some(trial.choice.gain),
            measured: outcome.map(|outcome| outcome.measured),
            ..target.decision(Kind::GoBack, trial.from, why)
        };
        if !is_there {
            target.owe(trial.from);
        }
        let trial_ns = trial::usual_ns(trial.length_ns);
        if failed {
            target.back_off(trial_ns, why.to_owned(), self.now_ns);
        } else {
            target.wait(trial_ns, why.to_owned(), self.now_ns);
        }
        target.pause.ended = Some(Ended {
            failed,
            trial_ns,
            pressure: trial.pressure,
        });
        if is_there && !is_same(target.scope, trial.from, target.found) {
            // It was kept before, and still is.
            target.state = State::Kept;
        }
        Some(back)
    }

    /// A trial that ended since the last reading says nothing of its VM if other tasks began to want the CPUs meanwhile.
    pub(super) fn judge_trials(&mut self) {
        let now = self.seen.host.cpu_pressure.share();
        for target in self.targets.values_mut() {
            let Some(ended) = target.pause.ended.take() else {
                continue;
            };
            if let Some((before, now)) = ended.pressure.zip(now)
                && now - before >= HABIT
            {
                let why = format!(
                    "other tasks want the CPUs: some task waits for {:.0} % of the time, {:.0} % when the trial began",
                    now * 100.0,
                    before * 100.0
                );
                target.has_not_failed(&ended, why, self.now_ns);
            }
        }
    }

    pub(super) fn end_trial(&mut self, target: &mut Target, why: &str) -> Option<Decision> {
        self.drop_period(target.scope);
        self.go_back(target, why, None, false)
    }

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
