//! Trials, period by period, and what comes of a change.

use super::super::decision::{Decision, Kind, Refusal};
use super::super::evidence::{Answer, Choice, Evidence};
use super::super::input::Scope;
use super::super::memory::Proven;
use super::super::trial::{self, Next, Outcome, Trial};
use super::super::unit::{Ended, State, Unit, is_same};
use super::{Pilot, Purpose, facts_of};
use crate::explain::HABIT;
use crate::ids::VmKey;
use crate::kvm::Knobs;
use crate::prove::schedule::Block;
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

fn same_interval(share: f64) -> Interval {
    Interval {
        value: share,
        low: share,
        high: share,
    }
}

impl<E: Evidence> Pilot<E> {
    pub(super) fn act(
        &mut self,
        unit: &mut Unit,
        answer: &Answer,
        choice: Choice,
    ) -> Vec<Decision> {
        let proven = unit.proven.iter().find(|it| it.is_for(load(answer)));
        let proven = proven
            .filter(|it| is_same(unit.scope, it.knobs, choice.knobs))
            .copied();
        unit.is_new = false;
        let decision = |kind, to, is_made, why, measured| Decision {
            kind,
            scope: unit.scope,
            change: Some(Self::change_to(unit, to)),
            is_made,
            why,
            expected: Some(choice.gain),
            measured,
            found: unit.found,
        };
        let percent = choice.gain.value * 100.0;
        let why = format!("a halt costs {percent:.0} % less by what was recorded");
        if let Some(proven) = proven {
            let why = format!("{why}, and was measured to before, under such a load");
            let measured = Some(proven.measured);
            let again = decision(Kind::Again, proven.knobs, true, why, measured);
            unit.more_poll_percent += choice.more_poll_cpu_percent;
            // Others that are considered before it is made do not find room that it takes.
            self.changed_ns = self.now_ns;
            return vec![again];
        }
        let announced = decision(Kind::Try, choice.knobs, false, why.clone(), None);
        self.trials += 1;
        let seed = self.seed.wrapping_add(self.trials);
        let trial = Trial::new(
            unit.in_force(),
            choice,
            answer.cost,
            answer.halts_per_s,
            self.seen.host.cpu_pressure.share(),
            seed,
        );
        self.forget_trials(|vm| unit.members.contains(vm));
        unit.would = None;
        unit.become_(State::Trial(Box::new(trial)), why, self.now_ns);
        let mut decisions = vec![announced];
        decisions.extend(self.begin_period(unit));
        decisions
    }

    /// The change that a period begins with, if it takes one; without, its facts are wanted at once.
    fn begin_period(&mut self, unit: &Unit) -> Option<Decision> {
        let trial = unit.trial()?;
        let wanted = trial.wanted();
        if is_same(unit.scope, wanted, unit.in_force()) {
            self.want_period(unit);
            return None;
        }
        let is_on = is_same(unit.scope, wanted, trial.choice.knobs);
        Some(Decision {
            kind: if is_on { Kind::On } else { Kind::Off },
            scope: unit.scope,
            change: Some(Self::change_to(unit, wanted)),
            is_made: true,
            why: "a period of the trial".to_owned(),
            expected: Some(trial.choice.gain),
            measured: None,
            found: unit.found,
        })
    }

    /// Begins the next period. Before it, a VM is looked at for which something was set and whose load may have changed,
    /// unless the setting on trial is in force.
    fn next_period(&mut self, unit: &Unit, is_on: bool) -> Vec<Decision> {
        if !is_on {
            self.plan_look(true);
        }
        if self.collecting.is_some() {
            return Vec::new();
        }
        self.begin_period(unit).into_iter().collect()
    }

    /// Goes on with a trial that has waited for a look; one that has just begun has decided how.
    pub(super) fn go_on(&mut self, decisions: &[Decision]) -> Option<Decision> {
        let waits = |unit: &&Unit| unit.trial().is_some();
        let scope = self.units.values().find(waits)?.scope;
        if self.collecting.is_some() || decisions.iter().any(|it| it.scope == scope) {
            return None;
        }
        let unit = self.units.remove(&scope)?;
        let decision = self.begin_period(&unit);
        self.units.insert(scope, unit);
        decision
    }

    fn want_period(&mut self, unit: &Unit) {
        let Some(trial) = unit.trial() else {
            return;
        };
        let most_halts = OF_PERIOD / unit.members.len().max(1);
        let purpose = Purpose::Period(unit.scope);
        self.want(purpose, unit.members.clone(), trial.parts_ns(), most_halts);
    }

    pub(super) fn period_is_over(
        &mut self,
        scope: Scope,
        facts: Vec<(VmKey, Option<E::Chunk>)>,
    ) -> Vec<Decision> {
        let Some(mut unit) = self.units.remove(&scope) else {
            return Vec::new();
        };
        let decisions = self.take_period(&mut unit, facts);
        self.units.insert(scope, unit);
        decisions
    }

    fn take_period(
        &mut self,
        unit: &mut Unit,
        facts: Vec<(VmKey, Option<E::Chunk>)>,
    ) -> Vec<Decision> {
        let Some(other) = unit.trial().map(Trial::other) else {
            return Vec::new();
        };
        let measured = self.measure(unit, facts, other);
        let margin = self.errors().margin();
        let State::Trial(trial) = &mut unit.state else {
            return Vec::new();
        };
        let is_on = trial.block().is_some_and(Block::is_b);
        let measured = measured.unwrap_or_default();
        // The part that did not count has cost as much.
        let [_, recorded_ns] = trial.parts_ns();
        let length_ns = trial.length_ns as f64;
        let cost_ns = measured.in_ns(measured.cost_ns, length_ns, recorded_ns);
        let before = trial.before_per_halt_ns();
        let found_ratio = unit
            .answer
            .as_ref()
            .map_or(1.0, |answer| answer.found_ratio.value);
        let per_halt = measured.cost_ns / measured.halts.max(1) as f64;
        let ratio = match before {
            Some(before) if is_on && per_halt > 0.0 => found_ratio * before / per_halt,
            _ => found_ratio,
        };
        let off_by = if unit.set.is_some() { margin } else { 0.0 };
        unit.regret.add(cost_ns, &same_interval(ratio), off_by);
        let next = trial.take(&measured);
        if matches!(next, Next::Period) && unit.regret.allowance_ns() < 0.0 {
            let why = "more than 3 % of what was found would be lost".to_owned();
            return self.go_back(unit, why, None, true);
        }
        match next {
            Next::Period => self.next_period(unit, is_on),
            Next::Changed => {
                Self::forget(&mut self.members, unit);
                self.forget_trials(|vm| unit.members.contains(vm));
                let why = "the load of its VM has changed".to_owned();
                self.go_back(unit, why, None, false)
            }
            Next::Keep(outcome) => self.keep(unit, outcome),
            Next::Back(outcome, why) => self.go_back(unit, why.to_owned(), outcome, true),
        }
    }

    fn measure(
        &mut self,
        unit: &Unit,
        facts: Vec<(VmKey, Option<E::Chunk>)>,
        other: Knobs,
    ) -> Option<super::super::evidence::Measured> {
        let trial = unit.trial()?;
        let (cost, is_tried) = (trial.cost, trial.block().is_some_and(Block::is_b));
        // Stretches of a period stand in for the VM's own for as long as they are measured.
        let mut kept = Vec::new();
        for (vm, chunk) in facts {
            let Some(member) = self.members.get_mut(&vm) else {
                continue;
            };
            if let Some(chunk) = &chunk {
                self.evidence.learn(chunk);
                member.tried[usize::from(is_tried)] = Some(E::excerpt(chunk));
            }
            // One that did not halt has none.
            let of_period = chunk.into_iter().collect();
            kept.push((vm, std::mem::replace(&mut member.chunks, of_period)));
        }
        let measured = self
            .evidence
            .measure(&facts_of(&self.members, unit), other, &cost);
        for (vm, chunks) in kept {
            if let Some(member) = self.members.get_mut(&vm) {
                member.chunks = chunks;
            }
        }
        measured.filter(|measured| measured.halts > 0)
    }

    fn keep(&mut self, unit: &mut Unit, outcome: Outcome) -> Vec<Decision> {
        let Some(trial) = unit.trial().cloned() else {
            return Vec::new();
        };
        self.errors_of(&outcome);
        let to = trial.choice.knobs;
        let measured = outcome.measured;
        unit.measured = Some(measured);
        unit.more_poll_percent += trial.choice.more_poll_cpu_percent;
        if let Some(answer) = &mut unit.answer {
            Proven {
                load: load(answer),
                knobs: to,
                measured,
            }
            .keep(&mut unit.proven);
            // Until the next look, what was measured holds.
            let ratio = |share: f64| (1.0 + share).max(0.01);
            answer.cost_per_halt_ns *= ratio(measured.value);
            let before = answer.found_ratio.value;
            answer.found_ratio = Interval {
                value: before / ratio(measured.value),
                low: before / ratio(measured.high),
                high: before / ratio(measured.low),
            };
            answer.choice = None;
        }
        let why = format!(
            "measured: a halt costs {:.0} % less",
            -measured.value * 100.0
        );
        let change = Self::change_to(unit, to);
        unit.become_(State::Kept, why.clone(), self.now_ns);
        self.is_beside_another(unit);
        vec![Decision {
            kind: Kind::Keep,
            scope: unit.scope,
            change: Some(change),
            is_made: !is_same(unit.scope, change.from, to),
            why,
            expected: Some(trial.choice.gain),
            measured: Some(measured),
            found: unit.found,
        }]
        .into_iter()
        .inspect(|_| Self::forget(&mut self.members, unit))
        .collect()
    }

    /// The setting of one target has changed for good: what trials of others showed rests on what it did before.
    fn is_beside_another(&mut self, changed: &Unit) {
        self.forget_trials(|vm| !changed.members.contains(vm));
    }

    /// What trials of these VMs showed counts no longer.
    fn forget_trials(&mut self, of: impl Fn(&VmKey) -> bool) {
        for (_, member) in self.members.iter_mut().filter(|(vm, _)| of(vm)) {
            member.tried = Default::default();
        }
    }

    /// What was recorded under another setting is no longer what is in force.
    pub(super) fn forget(
        members: &mut std::collections::BTreeMap<VmKey, super::super::member::Member<E::Chunk>>,
        unit: &Unit,
    ) {
        for vm in &unit.members {
            if let Some(member) = members.get_mut(vm) {
                member.chunks.clear();
                member.looked_ns = None;
            }
        }
    }

    fn errors_of(&mut self, outcome: &Outcome) {
        if let Some(error) = outcome.error {
            self.errors.add(error);
        }
    }

    /// The setting before the trial holds again; `failed` where the trial speaks against the one tried.
    fn go_back(
        &mut self,
        unit: &mut Unit,
        why: String,
        outcome: Option<Outcome>,
        failed: bool,
    ) -> Vec<Decision> {
        let Some(trial) = unit.trial().cloned() else {
            return Vec::new();
        };
        if let Some(outcome) = &outcome {
            self.errors_of(outcome);
        }
        let now = unit.in_force();
        let is_there = is_same(unit.scope, now, trial.from);
        unit.owed = (!is_there).then_some(trial.from);
        let trial_ns = trial::usual_ns(trial.length_ns);
        unit.ended = Some(Ended {
            failed,
            trial_ns,
            pressure: trial.pressure,
        });
        if failed {
            unit.back_off(trial_ns, why.clone(), self.now_ns);
        } else {
            unit.wait(trial_ns, why.clone(), self.now_ns);
        }
        if is_there && !is_same(unit.scope, trial.from, unit.found) {
            // It was kept before, and still is.
            unit.state = State::Kept;
        }
        vec![Decision {
            kind: Kind::GoBack,
            scope: unit.scope,
            change: Some(Self::change_to(unit, trial.from)),
            is_made: !is_there,
            why,
            expected: Some(trial.choice.gain),
            measured: outcome.map(|outcome| outcome.measured),
            found: unit.found,
        }]
    }

    /// A trial that ended since the last reading says nothing of its VM if other tasks began to want the CPUs meanwhile.
    pub(super) fn judge_trials(&mut self) {
        let now = self.seen.host.cpu_pressure.share();
        for unit in self.units.values_mut() {
            let Some(ended) = unit.ended.take() else {
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
                unit.has_not_failed(&ended, why, self.now_ns);
            }
        }
    }

    /// Ends a trial before its time.
    pub(super) fn end_trial(&mut self, scope: Scope, why: &str) -> Vec<Decision> {
        self.drop_period(scope);
        let Some(mut unit) = self.units.remove(&scope) else {
            return Vec::new();
        };
        let decisions = self.go_back(&mut unit, why.to_owned(), None, false);
        self.units.insert(scope, unit);
        decisions
    }

    pub(super) fn is_made(&mut self, decision: &Decision) -> Vec<Decision> {
        let now_ns = self.now_ns;
        let Some(change) = decision.change else {
            return Vec::new();
        };
        let Some(mut unit) = self.units.remove(&decision.scope) else {
            return Vec::new();
        };
        if let Some(followed) = unit.followed.take() {
            // With a ceiling of its own it no longer follows what the pilot may have set of the host's.
            unit.found = followed;
        }
        let is_found = is_same(unit.scope, change.to, unit.found);
        unit.is_at(change.to);
        self.changed_ns = now_ns;
        unit.changed(now_ns);
        for vm in &unit.members {
            if let Some(member) = self.members.get_mut(vm) {
                member.view.relearn();
            }
        }
        self.drop_look_at(&unit.members);
        match decision.kind {
            Kind::On | Kind::Off => self.want_period(&unit),
            Kind::Again => {
                unit.measured = decision.measured;
                unit.become_(State::Kept, decision.why.clone(), now_ns);
            }
            _ => {}
        }
        if matches!(unit.state, State::Watching) && is_found {
            unit.why.clone_from(&decision.why);
        }
        match decision.kind {
            // Its load has changed, or a guard has.
            Kind::Restore => self.forget_trials(|_| true),
            Kind::Again => self.is_beside_another(&unit),
            _ => {}
        }
        if !decision.kind.is_period() {
            Self::forget(&mut self.members, &unit);
            if decision.kind != Kind::Keep {
                unit.answer = None;
            }
        }
        self.units.insert(decision.scope, unit);
        Vec::new()
    }

    /// A change was not made.
    pub(super) fn is_refused(&mut self, decision: &Decision, refusal: Refusal) -> Vec<Decision> {
        let scope = decision.scope;
        match refusal {
            Refusal::Ended => self.abandon(scope, "its VM has ended"),
            Refusal::Moved => self.abandon(scope, "it follows halt_poll_ns, which has changed"),
            Refusal::Failed(why) => self.has_failed(scope, &why),
            Refusal::Theirs => {
                let why = "it was modified externally, and is left alone".to_owned();
                return self.hands_off(scope, why).into_iter().collect();
            }
        }
        Vec::new()
    }

    /// Nothing that the pilot has set of a target is in force any more: its trial ends, and nothing is to be restored.
    fn abandon(&mut self, scope: Scope, why: &str) {
        self.drop_period(scope);
        let (trial_ns, now_ns) = (self.trial_ns(scope), self.now_ns);
        if let Some(unit) = self.units.get_mut(&scope) {
            unit.is_at(unit.found);
            unit.answer = None;
            unit.wait(trial_ns, why, now_ns);
        }
    }

    /// What is in force is what was before, as far as is known; what is to be restored is tried again.
    fn has_failed(&mut self, scope: Scope, why: &str) {
        self.failed += 1;
        let (trial_ns, now_ns) = (self.trial_ns(scope), self.now_ns);
        let Some(unit) = self.units.get_mut(&scope) else {
            return;
        };
        unit.failing.is_unsure = true;
        if unit.owed.is_some() {
            unit.not_restored(now_ns);
            return;
        }
        let safe = unit.trial().map_or(unit.found, |trial| trial.from);
        unit.owed = (!is_same(scope, unit.in_force(), safe)).then_some(safe);
        unit.back_off(trial_ns, format!("it could not be set: {why}"), now_ns);
    }
}
