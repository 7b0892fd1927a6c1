//! One target: the setting in force, who has set it, and what is remembered of it.

use std::collections::{BTreeMap, VecDeque};

use super::decision::{Change, Decision, Kind};
use super::evidence::{Answer, Choice};
use super::input::{Ceiling, Held, Scope};
use super::memory::{Known, OfTarget};
use super::observed::Observed;
use super::standing::VmState;
use super::trial::{self, MOST_CHANGES, Trial};
use crate::ids::VmKey;
use crate::kvm::Knobs;
use crate::parameter::Values;
use crate::stats::Interval;

/// Whether a target has that setting: a VM's is its ceiling alone, and the other parameters are the host's.
pub(super) fn is_same(scope: Scope, one: Knobs, other: Knobs) -> bool {
    match scope {
        Scope::Vm(_) => one.halt_poll_ns == other.halt_poll_ns,
        Scope::Host => one == other,
    }
}

#[derive(Debug, Clone, Default)]
pub(super) enum State {
    #[default]
    Watching,
    Trial(Box<Trial>),
    Kept,
    /// The setting found is restored, or is to be; nothing is tried for a while.
    BackOff,
    HandsOff,
}

impl State {
    pub(super) fn named(&self) -> VmState {
        match self {
            Self::Watching => VmState::Watching,
            Self::Trial(_) => VmState::Trial,
            Self::Kept => VmState::Kept,
            Self::BackOff => VmState::BackOff,
            Self::HandsOff => VmState::HandsOff,
        }
    }
}

/// Nothing is tried for ten times as long as a failed trial took, so that no more than a tenth of the time goes into
/// trials that fail; each further one doubles that, up to a day.
const BACK_OFF: u64 = 10;
const LONGEST_NS: u64 = 86_400_000_000_000;

/// Changes of one target in an hour, at most: four trials of 24 to 36 periods. Each is a write of the journal that is
/// flushed to the disk.
const CHANGES: usize = 120;
const HOUR_NS: u64 = 3_600_000_000_000;

/// A failed restore is tried again after this time, then after twice this time, up to ten minutes. A reading may come a
/// little before its time, and a change takes seconds where a VMM does not answer: half of the first is no matter.
const RESTORE_AGAIN_NS: u64 = 10_000_000_000;
const RESTORE_LONGEST_NS: u64 = 600_000_000_000;
const RESTORE_DOUBLED: u32 = 6;

/// A target of several VMs is weighed again when one in so many of them was looked at: that plays the halts of all.
const OF_MEMBERS: usize = 8;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Owed {
    pub(super) to: Knobs,
    /// How often in a row restoring has failed, and when it is tried again.
    failed: u32,
    again_ns: u64,
}

impl Owed {
    /// Restoring has failed: it is tried again after a time that doubles each time.
    pub(super) fn has_failed(&mut self, now_ns: u64) {
        let doubled = RESTORE_AGAIN_NS << self.failed.min(RESTORE_DOUBLED);
        self.again_ns = now_ns.saturating_add(doubled.min(RESTORE_LONGEST_NS));
        self.failed = self.failed.saturating_add(1);
    }

    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        self.again_ns <= now_ns.saturating_add(RESTORE_AGAIN_NS / 2)
    }
}

/// Nothing is tried before its end, in whichever state.
#[derive(Debug, Default)]
pub(super) struct Pause {
    pub(super) until_ns: u64,
    pub(super) why: String,
    /// The trial that it follows, until the next reading with counts.
    pub(super) ended: Option<Ended>,
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) failed: bool,
    pub(super) trial_ns: u64,
    /// CPU pressure when it began, where that was known.
    pub(super) pressure: Option<f64>,
}

#[derive(Debug, Default)]
pub(super) struct Target {
    pub(super) scope: Scope,
    pub(super) observed: Observed,
    pub(super) found: Knobs,
    /// The setting that the pilot has set; `None`: none, or none any more.
    pub(super) set: Option<Knobs>,
    /// It was a VM without a ceiling of its own when it was read last and nothing was set: what it would have followed without
    /// the pilot.
    followed: Option<Knobs>,
    /// The last change failed, and may have been made nevertheless.
    pub(super) is_unsure: bool,
    pub(super) state: State,
    pub(super) since_ns: u64,
    /// The end of its last trial, whose periods were measured one by one.
    pub(super) measured_until_ns: u64,
    pub(super) why: String,
    pub(super) owed: Option<Owed>,
    pub(super) pause: Pause,
    pub(super) answer: Option<Answer>,
    pub(super) is_new: bool,
    /// Looks at its VMs that its answer does not rest on yet.
    looks: usize,
    pub(super) predicted: Option<Interval>,
    pub(super) would: Option<Knobs>,
    pub(super) known: Known,
    /// Weight of latency for each of its VMs, as last read.
    goals: BTreeMap<VmKey, u64>,
    changes: VecDeque<u64>,
    /// Last decision, periods of trials apart, and its time.
    pub(super) decided: Option<(Kind, u64)>,
}

#[derive(Debug, PartialEq)]
pub(super) enum SetBy {
    Known,
    /// Another program, of which the target takes it as found; or a change of the pilot's that failed and was made
    /// nevertheless: facts of before are of another setting.
    Moved(&'static str),
    Another(String),
}

impl Target {
    pub(super) fn new(scope: Scope, observed: Observed, now_ns: u64) -> Self {
        Self {
            scope,
            found: observed.now,
            observed,
            since_ns: now_ns,
            measured_until_ns: 0,
            why: "it has not been looked at yet".to_owned(),
            pause: Pause {
                why: "a trial of an earlier run has failed".to_owned(),
                ..Pause::default()
            },
            ..Self::default()
        }
    }

    /// As an earlier run left it, and as the journal has it. A setting that this run tried, or set for a reason that is not
    /// known, is to be restored; one that neither knows counts as found where the pilot takes over.
    pub(super) fn adopt(&mut self, memory: Option<OfTarget>, takes_over: bool) {
        let Observed { held, now, .. } = self.observed;
        let scope = self.scope;
        let is_now = |it: Knobs| is_same(scope, it, now);
        let ours = held.map(|held| held.ours);
        // With a memory, the journal's setting before explains nothing: an earlier run may have taken another one over since.
        let known = match &memory {
            Some(of) => {
                // The record has other parameters of the host as they are in force.
                let set = |of: Held<Knobs>| Values::from(of.ours).beyond(&of.before.into());
                let set = held.map(|held| set(held).over(of.found).into());
                [of.set, set, Some(of.found), of.trial_from]
            }
            None => [held.map(|held| held.before), ours, None, None],
        };
        let is_known = known.into_iter().flatten().any(is_now);
        if takes_over && !is_known {
            return;
        }
        let Some(of) = memory else {
            self.found = held.map_or(now, |held| held.before);
            if ours.is_some_and(is_now) && !is_now(self.found) {
                self.set = ours;
                self.owe_of_earlier(self.found);
            }
            return;
        };
        (self.found, self.known) = (of.found, of.known);
        self.goals = of.goals.into_iter().collect();
        let ago = of.changed_ago_ns.iter();
        self.changes = ago.map(|ago| self.since_ns.saturating_sub(*ago)).collect();
        if of.trial_from.is_some() {
            // The number of periods of that trial that began after this was kept is not known.
            let unknown = std::iter::repeat_n(self.since_ns, MOST_CHANGES);
            self.changes.extend(unknown);
        }
        self.pause.until_ns = self.since_ns.saturating_add(of.waits_ns);
        if of.hands_off {
            self.state = State::HandsOff;
            "it was modified externally".clone_into(&mut self.why);
            return;
        }
        if !is_known {
            self.set = of.set;
            return;
        }
        self.set = (!is_now(of.found)).then_some(now);
        let is_kept = self.known.measured.is_some() && of.set.is_some_and(is_now);
        let to = of
            .trial_from
            .unwrap_or(if is_kept { now } else { of.found });
        if !is_now(to) {
            self.owe_of_earlier(to);
        } else if self.set.is_some() {
            self.state = State::Kept;
            "kept by an earlier run".clone_into(&mut self.why);
        }
    }

    fn owe_of_earlier(&mut self, to: Knobs) {
        self.owe(to);
        "an earlier run tried it, and did not keep it".clone_into(&mut self.why);
    }

    pub(super) fn memory(&self, now_ns: u64) -> OfTarget {
        let ago = |at: &u64| now_ns.saturating_sub(*at);
        let within = |ago: &u64| *ago < HOUR_NS;
        let goals = self.goals.iter();
        OfTarget {
            scope: self.scope,
            // The setting that a VM follows may be the pilot's.
            found: self.followed.unwrap_or(self.found),
            set: self.set,
            trial_from: match &self.state {
                State::Trial(trial) => Some(trial.from),
                _ => self.owed.map(|owed| owed.to),
            },
            known: self.known.clone(),
            changed_ago_ns: self.changes.iter().map(ago).filter(within).collect(),
            waits_ns: self.pause.until_ns.saturating_sub(now_ns),
            hands_off: self.is_hands_off(),
            goals: goals.map(|(vm, weight)| (*vm, *weight)).collect(),
        }
    }

    /// Takes in the setting that was read; gives who has set it.
    pub(super) fn take_setting(&mut self) -> SetBy {
        let now = self.observed.now;
        if self.is_hands_off() {
            return SetBy::Known;
        }
        let before = self.in_force();
        // The host's other parameters may change under a ceiling of a VM.
        if let Scope::Vm(_) = self.scope {
            self.settings_mut().for_each(|knobs| {
                *knobs = Knobs {
                    halt_poll_ns: knobs.halt_poll_ns,
                    ..now
                };
            });
        }
        let set_by = if before == now {
            SetBy::Known
        } else {
            SetBy::Moved("the host's parameters have changed")
        };
        if self.observed.ceiling == Ceiling::Follows && self.set.is_none() {
            // It has none of its own, and takes what the host's parameter is; what the pilot found is what that was.
            if let State::Trial(trial) = &mut self.state {
                trial.from = now;
            }
            self.found = now;
            self.followed = Some(self.observed.without);
            return set_by;
        }
        let expected = self.in_force();
        // One whose VMM can no longer be asked says nothing of it.
        let is_own = matches!(self.observed.ceiling, Ceiling::Own(_));
        let has_own = is_own && self.followed.is_some() && self.set.is_none();
        if is_same(self.scope, expected, now) && !has_own {
            // A change that failed was not made, as is known once its VMM answers.
            self.is_unsure &= !self.observed.has_answered;
            return set_by;
        }
        if self.was_made() {
            return SetBy::Moved("a change that had failed was made after all");
        }
        if self.observed.is_excluded && self.set.is_none() {
            return SetBy::Known;
        }
        let (now, before) = (now.halt_poll_ns, expected.halt_poll_ns);
        SetBy::Another(if has_own {
            format!(
                "it has a ceiling of its own now, {now} ns: it was set externally, and is left alone"
            )
        } else {
            format!(
                "halt_poll_ns is {now} and was {before}: it was modified externally, and is left alone"
            )
        })
    }

    fn settings_mut(&mut self) -> impl Iterator<Item = &mut Knobs> {
        let on_trial = match &mut self.state {
            State::Trial(trial) => Some([&mut trial.from, &mut trial.choice.knobs]),
            _ => None,
        };
        let owed = self.owed.as_mut().map(|owed| &mut owed.to);
        let known = [Some(&mut self.found), self.set.as_mut(), owed];
        known
            .into_iter()
            .flatten()
            .chain(on_trial.into_iter().flatten())
    }

    /// Whether the setting in force, which is not the expected one, comes from a change of the pilot's that failed and
    /// was made nevertheless: the setting to restore, the setting found, of which the journal has nothing, or the
    /// pilot's setting as the journal has it. In place of the last, the expected setting is to be restored.
    fn was_made(&mut self) -> bool {
        let now = self.observed.now;
        let is_now = |it: Knobs| is_same(self.scope, it, now);
        if !self.is_unsure {
            return false;
        }
        let is_restored = self.owed.is_some_and(|owed| is_now(owed.to)) || is_now(self.found);
        if !is_restored && !self.observed.held.is_some_and(|held| is_now(held.ours)) {
            return false;
        }
        self.stops_following();
        if is_restored {
            self.is_at(now);
        } else {
            if self.owed.is_none() {
                self.owe(self.in_force());
            }
            self.set = Some(now);
        }
        self.answer = None;
        true
    }

    /// The pilot has given it a ceiling of its own: it no longer follows what the pilot may have set of the host's.
    pub(super) fn stops_following(&mut self) {
        self.found = self.followed.take().unwrap_or(self.found);
    }

    /// Takes the goals of VMs in, by what latency is worth to each that is there and has one; gives whether one of them has
    /// changed.
    pub(super) fn take_goals(&mut self, of: impl Fn(&VmKey) -> Option<Option<u64>>) -> bool {
        let mut is_other = false;
        self.goals.retain(|vm, _| of(vm).is_some());
        for vm in &self.observed.members {
            let Some(weight) = of(vm).flatten() else {
                continue;
            };
            let before = self.goals.insert(*vm, weight);
            is_other |= before.is_some_and(|before| before != weight);
        }
        is_other
    }

    /// Measurements for another goal no longer count.
    pub(super) fn forget_measured(&mut self, now_ns: u64) {
        self.known = Known::default();
        (self.answer, self.predicted, self.would) = (None, None, None);
        (self.is_new, self.pause.until_ns) = (false, now_ns);
    }

    /// One of its VMs has been looked at; gives whether it is to be weighed again, which plays the halts of all its VMs.
    pub(super) fn looked(&mut self) -> bool {
        self.looks += 1;
        let members = self.observed.members.len();
        let is_due = self.answer.is_none() || self.looks * OF_MEMBERS >= members;
        if is_due {
            self.looks = 0;
        }
        is_due
    }

    /// How long a trial of it takes at first.
    pub(super) fn trial_ns(&self) -> u64 {
        let answer = self.answer.as_ref();
        let halts_per_s = answer.map_or(0.0, |answer| answer.halts_per_s);
        trial::usual_ns(trial::length_ns(halts_per_s))
    }

    /// The setting in force, as far as the pilot is concerned.
    pub(super) fn in_force(&self) -> Knobs {
        self.set.unwrap_or(self.found)
    }

    pub(super) fn has(&self, knobs: Knobs) -> bool {
        is_same(self.scope, self.in_force(), knobs)
    }

    /// The decision to change it to this, and nothing else to say of it.
    pub(super) fn decision(&self, kind: Kind, to: Knobs, why: impl Into<String>) -> Decision {
        Decision {
            kind,
            scope: self.scope,
            change: Some(Change {
                from: self.in_force(),
                to,
                is_unsure: self.is_unsure,
            }),
            is_made: true,
            why: why.into(),
            expected: None,
            measured: None,
        }
    }

    pub(super) fn restore(&self, to: Knobs, why: impl Into<String>) -> Decision {
        Decision {
            measured: self.known.measured,
            ..self.decision(Kind::Restore, to, why)
        }
    }

    /// Whether the setting that was set may poll more than the setting found: as it did last, or because its ceiling is
    /// higher, whatever the load becomes.
    pub(super) fn polls_more(&self) -> bool {
        let answer = self.answer.as_ref();
        let polled_more = answer.is_some_and(|it| it.more_poll_than_found_percent > 0.0);
        let set = self.set.as_ref();
        set.is_some_and(|set| polled_more || set.halt_poll_ns > self.found.halt_poll_ns)
    }

    /// A setting is kept: until the next look, its trial says what it costs and polls.
    pub(super) fn keeps(&mut self, choice: &Choice, measured: Interval) {
        self.known.measured = Some(measured);
        let Some(answer) = &mut self.answer else {
            return;
        };
        let ratio = |share: f64| (1.0 + share).max(0.01);
        answer.cost_per_halt_ns *= ratio(measured.value);
        let before = answer.found_ratio.value;
        answer.found_ratio = Interval {
            value: before / ratio(measured.value),
            low: before / ratio(measured.high),
            high: before / ratio(measured.low),
        };
        answer.more_poll_than_found_percent += choice.more_poll_cpu_percent;
        answer.choice = None;
    }

    pub(super) fn trial(&self) -> Option<&Trial> {
        match &self.state {
            State::Trial(trial) => Some(trial),
            _ => None,
        }
    }

    /// Whether the configuration, or another program, has the pilot leave it alone.
    pub(super) fn is_left(&self) -> bool {
        self.observed.is_excluded || self.is_hands_off()
    }

    pub(super) fn is_hands_off(&self) -> bool {
        matches!(self.state, State::HandsOff)
    }

    pub(super) fn become_(&mut self, state: State, why: impl Into<String>, now_ns: u64) {
        if self.trial().is_some() {
            self.measured_until_ns = now_ns;
        }
        self.state = state;
        self.why = why.into();
        self.since_ns = now_ns;
    }

    pub(super) fn owe(&mut self, to: Knobs) {
        self.owed = Some(Owed {
            to,
            ..Owed::default()
        });
    }

    pub(super) fn owe_found(&mut self, why: &str, now_ns: u64) {
        self.owe(self.found);
        self.become_(State::BackOff, why, now_ns);
    }

    /// Backs off, for longer each time, also where a setting was kept in between: what is kept and given up again and again under
    /// one load has failed as often.
    pub(super) fn back_off(&mut self, trial_ns: u64, why: String, now_ns: u64) {
        let lasted_ns = now_ns.saturating_sub(self.since_ns);
        if matches!(self.state, State::Kept) && lasted_ns >= LONGEST_NS {
            // Failures before that are long ago.
            self.known.failed = 0;
        }
        let doubled = 1_u64
            .checked_shl(self.known.failed.min(32))
            .unwrap_or(u64::MAX);
        let ns = trial_ns.saturating_mul(BACK_OFF).saturating_mul(doubled);
        self.known.failed = self.known.failed.saturating_add(1);
        self.wait(ns.min(LONGEST_NS), why, now_ns);
    }

    /// Tries nothing for so long; nothing speaks against the setting that was tried.
    pub(super) fn wait(&mut self, ns: u64, why: String, now_ns: u64) {
        self.pause.until_ns = now_ns.saturating_add(ns);
        self.pause.why.clone_from(&why);
        self.become_(State::BackOff, why, now_ns);
    }

    /// The trial that ended last says nothing of the setting: the next may begin as soon as after one that did not fail.
    pub(super) fn has_not_failed(&mut self, ended: &Ended, why: String, now_ns: u64) {
        self.known.failed = self.known.failed.saturating_sub(u32::from(ended.failed));
        let soon_ns = now_ns.saturating_add(ended.trial_ns);
        self.pause.until_ns = self.pause.until_ns.min(soon_ns);
        if matches!(self.state, State::BackOff) {
            self.why.clone_from(&why);
        }
        self.pause.why = why;
    }

    /// This is in force, and nothing is to be restored.
    pub(super) fn is_at(&mut self, knobs: Knobs) {
        let is_found = is_same(self.scope, knobs, self.found);
        self.set = (!is_found).then_some(knobs);
        (self.observed.now, self.owed, self.is_unsure) = (knobs, None, false);
        if matches!(self.state, State::BackOff | State::Watching) && !is_found {
            // A setting kept before the trial is still kept, also where an earlier run began that trial.
            self.state = State::Kept;
        }
    }

    pub(super) fn changed(&mut self, now_ns: u64) {
        self.changes.push_back(now_ns);
        while self.changes.len() > CHANGES {
            self.changes.pop_front();
        }
    }

    /// Whether so many more changes within the next hour are within the limit.
    pub(super) fn may_change(&self, more: usize, now_ns: u64) -> bool {
        let last = |at: &&u64| now_ns.saturating_sub(**at) < HOUR_NS;
        self.changes.iter().filter(last).count() + more <= CHANGES
    }
}
