//! Decisions on each target, and the reasons that prevent an action.

use super::super::decision::{Decision, Kind};
use super::super::evidence::{Answer, Choice, Evidence};
use super::super::goals::Parameters;
use super::super::guards::Standing;
use super::super::input::Scope;
use super::super::member::{BLIND, Member};
use super::super::regret::MOST;
use super::super::trial;
use super::super::unit::{State, Unit, is_same};
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
    pub(super) fn consider(&mut self, unit: &mut Unit) -> Vec<Decision> {
        if let Some(to) = unit.owed {
            let may = self.may_restore && unit.may_restore_again(self.now_ns);
            return Vec::from_iter(may.then(|| Self::restore(unit, to, unit.why.clone())));
        }
        let decisions = self.watch(unit);
        let is_free = matches!(unit.state, State::Watching | State::Kept | State::BackOff);
        let chooses = is_free && !unit.place.is_excluded && unit.owed.is_none() && unit.is_new;
        if decisions.is_empty() && chooses {
            return self.choose(unit);
        }
        decisions
    }

    /// Ends a trial that has to end before its time, and restores what was found where what was set has to go.
    pub(super) fn watch(&mut self, unit: &mut Unit) -> Vec<Decision> {
        if unit.owed.is_some() {
            return Vec::new();
        }
        match &unit.state {
            State::HandsOff => Vec::new(),
            State::Trial(_) => match self.ends_trial(unit) {
                Some(why) => self.end_trial(unit, &why),
                None => Vec::new(),
            },
            // Whatever it is called: what was set is watched for as long as it is in force.
            State::Watching | State::Kept | State::BackOff => match self.gives_up(unit) {
                Some(why) => self.give_up(unit, why),
                None => Vec::new(),
            },
        }
    }

    fn forbids(&self, scope: Scope, knobs: Knobs) -> Option<String> {
        let limits = &self.setup.limits;
        let may_be_set = match scope {
            Scope::Vm(_) => limits.ceilings,
            Scope::Host => limits.parameters != Parameters::Never,
        };
        if !may_be_set {
            return Some("the pilot is no longer to set it".to_owned());
        }
        (knobs.halt_poll_ns > limits.max_ceiling_ns).then(|| {
            format!(
                "a ceiling of {} ns is above the highest that may be set, {} ns",
                knobs.halt_poll_ns, limits.max_ceiling_ns
            )
        })
    }

    /// Whether a trial has to end before its time.
    fn ends_trial(&self, unit: &Unit) -> Option<String> {
        let trial = unit.trial()?;
        let kept = (!is_same(unit.scope, trial.from, unit.found)).then_some(trial.from);
        let mut ours = kept.into_iter().chain([trial.choice.knobs]);
        if let Some(why) = ours.find_map(|ours| self.forbids(unit.scope, ours)) {
            return Some(why);
        }
        if self.members_of(unit).any(|it| it.blind >= BLIND) {
            return Some("its VM can no longer be read".to_owned());
        }
        // Its periods under the setting before are under what was kept.
        let more = trial.choice.polls_more_than(trial.from) || unit.polls_more();
        self.guard_ends(unit, more).map(Standing::why)
    }

    /// The reason to give up the setting that was set, if any.
    fn gives_up(&self, unit: &Unit) -> Option<String> {
        if let Some(why) = self.forbids(unit.scope, unit.set?) {
            return Some(why);
        }
        let share = unit.known.regret.share();
        if share > MOST {
            return Some(format!(
                "it has cost {:.1} % more than what was found, by replay of what was found",
                share * 100.0
            ));
        }
        if self.members_of(unit).any(Member::is_blind) {
            return Some("its VM can no longer be read".to_owned());
        }
        if let Some(guard) = self.guard_ends(unit, unit.polls_more()) {
            return Some(guard.why());
        }
        let answer = unit.answer.as_ref().filter(|_| unit.is_new)?;
        let ratio = answer.found_ratio;
        (ratio.high < 1.0 - LEAST_GAIN).then(|| {
            let percent = (1.0 - ratio.value) * 100.0;
            format!("the load has changed: what was found costs {percent:.0} % less now")
        })
    }

    /// The guard that ends what was begun, if one does: a figure that is not known says nothing against it.
    fn guard_ends(&self, unit: &Unit, polls_more: bool) -> Option<&Standing> {
        self.guards_against(unit, polls_more)
            .find(|it| !it.is_not_known())
    }

    /// The guards that keep from trying a setting.
    fn guards_against(&self, unit: &Unit, polls_more: bool) -> impl Iterator<Item = &Standing> {
        let is_host = unit.scope == Scope::Host;
        self.guards.iter().filter(move |it| {
            let concerns = is_host || !it.guard.is_of_parameters();
            it.holds && concerns && (polls_more || !it.guard.is_of_polling())
        })
    }

    fn give_up(&mut self, unit: &mut Unit, why: String) -> Vec<Decision> {
        unit.known.measured = None;
        unit.owed = Some(unit.found);
        unit.back_off(unit.trial_ns(), why.clone(), self.now_ns);
        // One that only watches says who restores.
        let restores = (self.may_restore).then(|| Self::restore(unit, unit.found, why));
        Vec::from_iter(restores)
    }

    fn choose(&mut self, unit: &mut Unit) -> Vec<Decision> {
        let Some(answer) = unit.answer.clone() else {
            return Vec::new();
        };
        let choice = answer
            .choice
            .filter(|it| !is_same(unit.scope, it.knobs, unit.in_force()));
        // A choice that has to wait is considered again until it can be tried, or the load changes.
        unit.is_new = choice.is_some() && self.setup.limits.may_act;
        let why = match choice {
            None => Err(answer.verdict.to_owned()),
            Some(choice) => self.may_try(unit, &answer, &choice).map(|()| choice),
        };
        let choice = match why {
            Ok(choice) => choice,
            Err(why) => {
                unit.would = None;
                if !matches!(unit.state, State::Kept) {
                    unit.why = why;
                }
                return Vec::new();
            }
        };
        unit.predicted = Some(choice.gain);
        if self.setup.limits.may_act {
            self.act(unit, &answer, choice)
        } else {
            self.observe(unit, choice)
        }
    }

    fn may_try(&self, unit: &Unit, answer: &Answer, choice: &Choice) -> Result<(), String> {
        if self.now_ns < unit.not_before_ns {
            return Err(format!("{}; nothing is tried for a while", unit.waits));
        }
        self.is_looked_at(unit)?;
        if let Some(why) = self.forbids(unit.scope, choice.knobs) {
            return Err(why);
        }
        let polls_more = choice.polls_more_than(unit.in_force());
        if let Some(guard) = self.guards_against(unit, polls_more).next() {
            return Err(guard.why());
        }
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
        let remaining_ns = (self.members_of(unit))
            .map(|it| it.view.remaining_ns(self.now_ns))
            .fold(0.0, f64::max);
        let gains_ns = sure * answer.cost_per_halt_ns * answer.halts_per_s * remaining_ns / 1e9;
        let trial_ns = unit.trial_ns() as f64;
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
            self.may_change(unit, answer, choice)
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
                guard.why()
            )),
            None => Ok(()),
        }
    }

    /// Whether enough looks were taken, at VMs that make most of the halts; if not, what is awaited.
    fn is_looked_at(&self, unit: &Unit) -> Result<(), String> {
        let members = || self.members_of(unit);
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

    fn may_change(&self, unit: &Unit, answer: &Answer, choice: &Choice) -> Result<(), String> {
        if !unit.may_change(trial::MOST_CHANGES, self.now_ns) {
            return Err("it was changed too often within an hour".to_owned());
        }
        if self.is_on_trial() {
            return Err("another target is on trial".to_owned());
        }
        let period_ns = trial::length_ns(answer.halts_per_s) as f64;
        let worst_ns = choice.worst_ns_per_s * period_ns / 1e9;
        let allowance_ns = unit.known.regret.allowance_ns();
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

    fn observe(&self, unit: &mut Unit, choice: Choice) -> Vec<Decision> {
        if unit.would == Some(choice.knobs) {
            return Vec::new();
        }
        unit.would = Some(choice.knobs);
        let why = format!("a halt would cost {:.0} % less", choice.gain.value * 100.0);
        if !matches!(unit.state, State::Kept) {
            // A setting kept while the pilot might act stays kept, and is given up where it has to be.
            unit.become_(State::Watching, why.clone(), self.now_ns);
        }
        vec![Decision {
            is_made: false,
            expected: Some(choice.gain),
            ..Self::decision(unit, Kind::WouldSet, choice.knobs, why)
        }]
    }
}
