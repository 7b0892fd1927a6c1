//! Second part of a step: the decision on each target, and the reasons that prevent an action.

use super::super::decision::{Decision, Kind};
use super::super::evidence::{Answer, Choice, Evidence};
use super::super::input::{Parameters, Scope};
use super::super::member::{BLIND, Member};
use super::super::memory::MOST;
use super::super::target::{State, Target, is_same};
use super::super::trial::{self, Trial};
use super::Pilot;
use crate::kvm::Knobs;
use crate::tune::advice::LEAST_GAIN;

/// A setting rests on so many looks at least: one may have fallen on a moment.
const LOOKS: usize = 2;

/// CPU time that recording adds to a halt: the median of two hosts (`docs/cost.md`).
const RECORDING_NS: f64 = 1_000.0;

/// A setting of several VMs rests on looks at VMs with so much of their halts; all are measured when it is tried. All of them
/// would be awaited for ever where loads change.
const MOST_HALTS: f64 = 0.9;

impl<E: Evidence> Pilot<E> {
    pub(super) fn consider(&mut self, target: &mut Target) -> Vec<Decision> {
        if let Some(owed) = target.owed {
            let may = self.may_restore && owed.is_due(self.now_ns);
            let restore = || target.restore(owed.to, target.why.clone());
            return may.then(restore).into_iter().collect();
        }
        if let Some(decision) = self.watch(target) {
            return vec![decision];
        }
        let is_free = target.trial().is_none() && target.owed.is_none();
        if is_free && !target.is_left() && target.is_new {
            return self.choose(target);
        }
        Vec::new()
    }

    /// Ends a trial that has to end before its time, and restores what was found where what was set has to go.
    pub(super) fn watch(&mut self, target: &mut Target) -> Option<Decision> {
        if target.owed.is_some() || target.is_hands_off() {
            return None;
        }
        if let Some(trial) = target.trial() {
            let why = self.goes_on(target, trial).err()?;
            return self.end_trial(target, &why);
        }
        // Whatever the state is called: what was set is watched for as long as it is in force.
        let why = self.stays(target).err()?;
        self.give_up(target, why)
    }

    fn allows(&self, scope: Scope, knobs: Knobs) -> Result<(), String> {
        let limits = &self.setup.limits;
        let may_be_set = match scope {
            Scope::Vm(_) => limits.ceilings,
            Scope::Host => limits.parameters != Parameters::Never,
        };
        if !may_be_set {
            return Err("the pilot is no longer to set it".to_owned());
        }
        if knobs.halt_poll_ns > limits.max_ceiling_ns {
            return Err(format!(
                "a ceiling of {} ns is above the highest that may be set, {} ns",
                knobs.halt_poll_ns, limits.max_ceiling_ns
            ));
        }
        Ok(())
    }

    /// Whether the guards allow a setting; one that is in force already goes on while a figure is not known.
    fn guards_allow(&self, target: &Target, more: bool, in_force: bool) -> Result<(), String> {
        let is_host = target.scope == Scope::Host;
        let against = self.guards.iter().find(|it| {
            let concerns = is_host || !it.guard.is_of_parameters();
            let is_new = !(in_force && it.is_not_known());
            it.holds && concerns && is_new && (more || !it.guard.is_of_polling())
        });
        against.map_or(Ok(()), |guard| Err(guard.why.clone()))
    }

    /// Whether a trial goes on; if not, why it has to end before its time.
    fn goes_on(&self, target: &Target, trial: &Trial) -> Result<(), String> {
        if !is_same(target.scope, trial.from, target.found) {
            self.allows(target.scope, trial.from)?;
        }
        self.allows(target.scope, trial.choice.knobs)?;
        let mut members = target.observed.members_of(&self.members);
        if members.any(|it| it.blind >= BLIND) {
            return Err("its VM can no longer be read".to_owned());
        }
        // Its periods under the setting before are under what was kept.
        let more = trial.choice.polls_more_than(trial.from) || target.polls_more();
        self.guards_allow(target, more, true)
    }

    /// Whether the setting that was set stays; if not, why it is given up.
    fn stays(&self, target: &Target) -> Result<(), String> {
        let Some(set) = target.set else {
            return Ok(());
        };
        self.allows(target.scope, set)?;
        let share = target.known.regret.share();
        if share > MOST {
            return Err(format!(
                "it has cost {:.1} % more than what was found, by replay of what was found",
                share * 100.0
            ));
        }
        let mut members = target.observed.members_of(&self.members);
        if members.any(Member::is_blind) {
            return Err("its VM can no longer be read".to_owned());
        }
        self.guards_allow(target, target.polls_more(), true)?;
        let answer = target.answer.as_ref().filter(|_| target.is_new);
        match answer.map(|answer| answer.found_ratio) {
            Some(ratio) if ratio.high < 1.0 - LEAST_GAIN => {
                let percent = (1.0 - ratio.value) * 100.0;
                Err(format!(
                    "the load has changed: what was found costs {percent:.0} % less now"
                ))
            }
            _ => Ok(()),
        }
    }

    fn give_up(&mut self, target: &mut Target, why: String) -> Option<Decision> {
        target.known.measured = None;
        target.owe(target.found);
        target.back_off(target.trial_ns(), why.clone(), self.now_ns);
        // One that only watches says who restores.
        (self.may_restore).then(|| target.restore(target.found, why))
    }

    fn choose(&mut self, target: &mut Target) -> Vec<Decision> {
        let Some(answer) = target.answer.clone() else {
            return Vec::new();
        };
        let choice = answer.choice.filter(|it| !target.has(it.knobs));
        // A choice that has to wait is considered again until it can be tried, or the load changes.
        target.is_new = choice.is_some() && self.setup.limits.may_act;
        let choice = choice.ok_or_else(|| answer.verdict.to_owned());
        let tried = choice.and_then(|it| self.may_try(target, &answer, &it).map(|()| it));
        let choice = match tried {
            Ok(choice) => choice,
            Err(why) => {
                target.would = None;
                if !matches!(target.state, State::Kept) {
                    target.why = why;
                }
                return Vec::new();
            }
        };
        target.predicted = Some(choice.gain);
        if self.setup.limits.may_act {
            self.begin(target, &answer, choice)
        } else {
            self.announce(target, choice).into_iter().collect()
        }
    }

    fn may_try(&self, target: &Target, answer: &Answer, choice: &Choice) -> Result<(), String> {
        if self.now_ns < target.pause.until_ns {
            return Err(format!(
                "{}; nothing is tried for a while",
                target.pause.why
            ));
        }
        self.is_looked_at(target)?;
        self.allows(target.scope, choice.knobs)?;
        let polls_more = choice.polls_more_than(target.in_force());
        self.guards_allow(target, polls_more, false)?;
        if polls_more {
            self.has_room(choice)?;
        }
        let margin = self.errors().margin();
        let sure = choice.gain.low - margin;
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        if sure < LEAST_GAIN {
            return Err(format!(
                "another setting would gain {} at the least, and nine in ten predictions are off by up to {}",
                percent(choice.gain.low),
                percent(margin)
            ));
        }
        let remaining_ns = (target.observed.members_of(&self.members))
            .map(|it| it.view.remaining_ns(self.now_ns))
            .fold(0.0, f64::max);
        let gains_ns = sure * answer.cost_per_halt_ns * answer.halts_per_s * remaining_ns / 1e9;
        let trial_ns = target.trial_ns() as f64;
        let price_ns = answer.halts_per_s * RECORDING_NS * trial_ns / 1e9;
        if gains_ns <= price_ns {
            return Err(format!(
                "as long as this phase may last, another setting gains {:.1} ms of CPU at the least, and a trial takes \
                 {:.1} ms",
                gains_ns / 1e6,
                price_ns / 1e6
            ));
        }
        if self.setup.limits.may_act {
            self.may_change(target, answer, choice)
        } else {
            Ok(())
        }
    }

    /// Whether a setting that polls more would hold a guard by that alone; if so, which, in words.
    fn has_room(&self, choice: &Choice) -> Result<(), String> {
        let [counted_from_ns, _] = self.counted_ns;
        if self.changed_ns > counted_from_ns {
            return Err(
                "what was set last has not been counted yet, and another setting would poll more"
                    .to_owned(),
            );
        }
        let more = choice.more_poll_cpu_percent.max(0.0) / 100.0;
        match self.guards.iter().find(|it| it.would_hold(more)) {
            Some(guard) => Err(format!(
                "another setting would poll for {:.0} % of a CPU more: {}",
                more * 100.0,
                guard.why
            )),
            None => Ok(()),
        }
    }

    /// Whether enough looks were taken, at VMs that make most of the halts; if not, what is awaited.
    fn is_looked_at(&self, target: &Target) -> Result<(), String> {
        let members = || target.observed.members_of(&self.members);
        let looked = || members().filter(|it| it.chunks.len() >= LOOKS);
        let halts = |it: &Member<E::Chunk>| it.halts() as f64;
        if looked().next().is_none() {
            return Err("one look was taken; another is awaited".to_owned());
        }
        let (of_looked, of_all): (f64, f64) =
            (looked().map(halts).sum(), members().map(halts).sum());
        if of_looked < MOST_HALTS * of_all {
            return Err(format!(
                "VMs with {:.0} % of the halts were looked at {LOOKS} times; {:.0} % are awaited",
                100.0 * of_looked / of_all,
                100.0 * MOST_HALTS
            ));
        }
        Ok(())
    }

    fn may_change(&self, target: &Target, answer: &Answer, choice: &Choice) -> Result<(), String> {
        if !target.may_change(trial::MOST_CHANGES, self.now_ns) {
            return Err("it was changed too often within an hour".to_owned());
        }
        if self.on_trial().is_some() {
            return Err("another target is on trial".to_owned());
        }
        let period_ns = trial::length_ns(answer.halts_per_s) as f64;
        let worst_ns = choice.worst_ns_per_s * period_ns / 1e9;
        let allowance_ns = target.known.regret.allowance_ns();
        if worst_ns > allowance_ns {
            return Err(format!(
                "a period under it can cost {:.1} ms of CPU more, and no more than {:.1} ms may be lost so far (3 % of \
                 what was found)",
                worst_ns / 1e6,
                allowance_ns.max(0.0) / 1e6
            ));
        }
        Ok(())
    }

    fn announce(&self, target: &mut Target, choice: Choice) -> Option<Decision> {
        if target.would.replace(choice.knobs) == Some(choice.knobs) {
            return None;
        }
        let why = format!("a halt would cost {:.0} % less", choice.gain.value * 100.0);
        if !matches!(target.state, State::Kept) {
            // A setting kept while the pilot might act stays kept, and is given up where it has to be.
            target.become_(State::Watching, why.clone(), self.now_ns);
        }
        Some(Decision {
            is_made: false,
            expected: Some(choice.gain),
            ..target.decision(Kind::WouldSet, choice.knobs, why)
        })
    }
}
