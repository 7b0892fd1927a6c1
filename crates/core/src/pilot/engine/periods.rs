//! Trials, period by period, and what comes of a change.

use super::super::decision::{Decision, Kind, Refusal};
use super::super::evidence::{Answer, Choice, Evidence, Measured};
use super::super::memory::Proven;
use super::super::trial::{self, Next, Outcome, Trial};
use super::super::unit::{Ended, State, Unit, is_same};
use super::{Pilot, Purpose};
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

impl<E: Evidence> Pilot<E> {
    pub(super) fn act(
        &mut self,
        unit: &mut Unit,
        answer: &Answer,
        choice: Choice,
    ) -> Vec<Decision> {
        let proven = unit.known.proven.iter().find(|it| it.is_for(load(answer)));
        let proven = proven
            .filter(|it| is_same(unit.scope, it.knobs, choice.knobs))
            .copied();
        unit.is_new = false;
        let percent = choice.gain.value * 100.0;
        let why = format!("a halt costs {percent:.0} % less by what was recorded");
        if let Some(proven) = proven {
            let why = format!("{why}, and was measured to before, under such a load");
            let again = Decision {
                expected: Some(choice.gain),
                measured: Some(proven.measured),
                ..Self::decision(unit, Kind::Again, proven.knobs, why)
            };
            unit.more_poll_percent += choice.more_poll_cpu_percent;
            // Others that are considered before it is made do not find room that it takes.
            self.changed_ns = self.now_ns;
            return vec![again];
        }
        let announced = Decision {
            is_made: false,
            expected: Some(choice.gain),
            ..Self::decision(unit, Kind::Try, choice.knobs, why.clone())
        };
        self.trials += 1;
        let seed = self.setup.seed.wrapping_add(self.trials);
        let trial = Trial::new(
            unit.in_force(),
            choice,
            answer.cost,
            answer.halts_per_s,
            self.seen.host.cpu_pressure.share(),
            seed,
        );
        self.forget_trials(|vm| unit.place.members.contains(vm));
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
        let kind = if is_on { Kind::On } else { Kind::Off };
        Some(Decision {
            expected: Some(trial.choice.gain),
            ..Self::decision(unit, kind, wanted, "a period of the trial")
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
        self.with_unit(scope, |pilot, unit| pilot.begin_period(unit))
    }

    fn want_period(&mut self, unit: &Unit) {
        let Some(trial) = unit.trial() else {
            return;
        };
        let most_halts = OF_PERIOD / unit.place.members.len().max(1);
        let (purpose, vms) = (Purpose::Period(unit.scope), unit.place.members.clone());
        self.want(purpose, vms, trial.parts_ns(), most_halts);
    }

    pub(super) fn take_period(
        &mut self,
        unit: &mut Unit,
        facts: &[(VmKey, Option<E::Chunk>)],
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
        let ratio = Interval::exactly(ratio);
        unit.known.regret.add(cost_ns, &ratio, off_by);
        let next = trial.take(&measured);
        if matches!(next, Next::Period) && unit.known.regret.allowance_ns() < 0.0 {
            let why = "more than 3 % of what was found would be lost".to_owned();
            return self.go_back(unit, why, None, true);
        }
        match next {
            Next::Period => self.next_period(unit, is_on),
            Next::Changed => {
                self.forget(unit);
                self.forget_trials(|vm| unit.place.members.contains(vm));
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
        facts: &[(VmKey, Option<E::Chunk>)],
        other: Knobs,
    ) -> Option<Measured> {
        let trial = unit.trial()?;
        let is_tried = trial.block().is_some_and(Block::is_b);
        for (vm, chunk) in facts {
            if let Some((member, chunk)) = self.members.get_mut(vm).zip(chunk.as_ref()) {
                self.setup.evidence.learn(chunk);
                member.tried[usize::from(is_tried)] = Some(E::excerpt(chunk));
            }
        }
        // A VM that did not halt has no stretch.
        let of_unit = facts
            .iter()
            .filter(|(vm, _)| unit.place.members.contains(vm));
        let recorded = of_unit.filter_map(|(vm, chunk)| {
            let chunk = chunk.as_ref()?;
            Some(self.members.get(vm)?.facts(vec![chunk]))
        });
        let recorded: Vec<_> = recorded.collect();
        let measured = self.setup.evidence.measure(&recorded, other, &trial.cost);
        measured.filter(|measured| measured.halts > 0)
    }

    fn keep(&mut self, unit: &mut Unit, outcome: Outcome) -> Vec<Decision> {
        let Some(trial) = unit.trial().cloned() else {
            return Vec::new();
        };
        self.setup.memory.errors.extend(outcome.error);
        let to = trial.choice.knobs;
        let measured = outcome.measured;
        unit.known.measured = Some(measured);
        unit.more_poll_percent += trial.choice.more_poll_cpu_percent;
        if let Some(answer) = &mut unit.answer {
            Proven {
                load: load(answer),
                knobs: to,
                measured,
            }
            .keep(&mut unit.known.proven);
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
        let kept = Decision {
            is_made: !is_same(unit.scope, unit.in_force(), to),
            expected: Some(trial.choice.gain),
            measured: Some(measured),
            ..Self::decision(unit, Kind::Keep, to, why.clone())
        };
        unit.become_(State::Kept, why, self.now_ns);
        self.forget_trials_of_others(unit);
        self.forget(unit);
        vec![kept]
    }

    /// The setting of one target has changed for good: what trials of others showed rests on what it did before.
    fn forget_trials_of_others(&mut self, changed: &Unit) {
        self.forget_trials(|vm| !changed.place.members.contains(vm));
    }

    /// Forgets the results of trials of these VMs.
    fn forget_trials(&mut self, of: impl Fn(&VmKey) -> bool) {
        for (_, member) in self.members.iter_mut().filter(|(vm, _)| of(vm)) {
            member.tried = Default::default();
        }
    }

    /// Forgets the facts of a target's VMs: they were recorded under another setting than the one in force.
    pub(super) fn forget(&mut self, unit: &Unit) {
        for vm in &unit.place.members {
            if let Some(member) = self.members.get_mut(vm) {
                member.chunks.clear();
                member.looked_ns = None;
            }
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
        self.setup
            .memory
            .errors
            .extend(outcome.and_then(|it| it.error));
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
            is_made: !is_there,
            expected: Some(trial.choice.gain),
            measured: outcome.map(|outcome| outcome.measured),
            ..Self::decision(unit, Kind::GoBack, trial.from, why)
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

    pub(super) fn end_trial(&mut self, unit: &mut Unit, why: &str) -> Vec<Decision> {
        self.drop_period(unit.scope);
        self.go_back(unit, why.to_owned(), None, false)
    }

    pub(super) fn is_made(&mut self, unit: &mut Unit, decision: &Decision) {
        let Some(change) = decision.change else {
            return;
        };
        let now_ns = self.now_ns;
        if let Some(followed) = unit.followed.take() {
            // With a ceiling of its own it no longer follows what the pilot may have set of the host's.
            unit.found = followed;
        }
        let is_found = is_same(unit.scope, change.to, unit.found);
        unit.is_at(change.to);
        self.changed_ns = now_ns;
        unit.changed(now_ns);
        for vm in &unit.place.members {
            if let Some(member) = self.members.get_mut(vm) {
                member.view.relearn();
            }
        }
        self.drop_look_at(&unit.place.members);
        match decision.kind {
            Kind::On | Kind::Off => self.want_period(unit),
            Kind::Again => {
                unit.known.measured = decision.measured;
                unit.become_(State::Kept, decision.why.clone(), now_ns);
                self.forget_trials_of_others(unit);
            }
            // Its load has changed, or a guard has.
            Kind::Restore => self.forget_trials(|_| true),
            _ => {}
        }
        if matches!(unit.state, State::Watching) && is_found {
            unit.why.clone_from(&decision.why);
        }
        if !decision.kind.is_period() {
            self.forget(unit);
            if decision.kind != Kind::Keep {
                unit.answer = None;
            }
        }
    }

    /// A change was not made.
    pub(super) fn is_refused(&mut self, unit: &mut Unit, refusal: Refusal) -> Vec<Decision> {
        match refusal {
            Refusal::Ended => self.abandon(unit, "its VM has ended"),
            Refusal::Moved => self.abandon(unit, "it follows halt_poll_ns, which has changed"),
            Refusal::Failed(why) => self.has_failed(unit, &why),
            Refusal::Theirs => {
                let why = "it was modified externally, and is left alone".to_owned();
                return vec![self.hands_off(unit, why)];
            }
        }
        Vec::new()
    }

    /// Nothing that the pilot has set of a target is in force any more: its trial ends, and nothing is to be restored.
    fn abandon(&mut self, unit: &mut Unit, why: &str) {
        self.drop_period(unit.scope);
        let trial_ns = unit.trial_ns();
        unit.is_at(unit.found);
        unit.answer = None;
        unit.wait(trial_ns, why, self.now_ns);
    }

    /// The setting in force is the one before, as far as is known; a setting that is to be restored is tried again.
    fn has_failed(&mut self, unit: &mut Unit, why: &str) {
        self.failed += 1;
        unit.failing.is_unsure = true;
        if unit.owed.is_some() {
            unit.not_restored(self.now_ns);
            return;
        }
        let safe = unit.trial().map_or(unit.found, |trial| trial.from);
        unit.owed = (!is_same(unit.scope, unit.in_force(), safe)).then_some(safe);
        let why = format!("it could not be set: {why}");
        unit.back_off(unit.trial_ns(), why, self.now_ns);
    }
}
