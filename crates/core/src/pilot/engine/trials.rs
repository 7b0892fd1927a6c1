//! Decisions of a trial, period by period.

use super::super::decision::{Decision, Kind};
use super::super::evidence::{Answer, Choice, Evidence, Measured};
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
}
