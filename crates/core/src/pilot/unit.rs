//! One target, what is in force there, and where it stands.

use std::collections::{BTreeMap, VecDeque};

use super::decision::{Change, Kind};
use super::evidence::Answer;
use super::input::{Held, Scope};
use super::memory::{Known, OfTarget};
use super::trial::{self, MOST_CHANGES, Trial};
use crate::ids::VmKey;
use crate::kvm::Knobs;
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
    /// Another program set it.
    HandsOff,
}

impl State {
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Watching => "watching",
            Self::Trial(_) => "trial",
            Self::Kept => "kept",
            Self::BackOff => "back-off",
            Self::HandsOff => "hands-off",
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
pub(super) struct Failing {
    /// The last one may have been made nevertheless.
    pub(super) is_unsure: bool,
    /// How often in a row restoring has failed, and when it is tried again.
    restores: u32,
    restore_at_ns: u64,
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) failed: bool,
    pub(super) trial_ns: u64,
    /// CPU pressure when it began, where that was known.
    pub(super) pressure: Option<f64>,
}

/// A target as the last reading that had it.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) members: Vec<VmKey>,
    /// The setting in force.
    pub(super) now: Knobs,
    /// The journal's record of it.
    pub(super) held: Option<Held<Knobs>>,
    /// It is not to be set: its VMs are left alone, or the configuration forbids it.
    pub(super) is_excluded: bool,
    /// The last reading had it.
    pub(super) is_read: bool,
}

#[derive(Debug, Default)]
pub(super) struct Unit {
    pub(super) scope: Scope,
    pub(super) place: Place,
    pub(super) found: Knobs,
    /// The setting that the pilot has set; `None`: none, or none any more.
    pub(super) set: Option<Knobs>,
    pub(super) state: State,
    pub(super) since_ns: u64,
    pub(super) why: String,
    pub(super) answer: Option<Answer>,
    pub(super) predicted: Option<Interval>,
    pub(super) would: Option<Knobs>,
    /// By how much more is polled than under the setting found, in % of one CPU: by the last answer, and until there is one by
    /// what its trial was to change.
    pub(super) more_poll_percent: f64,
    pub(super) known: Known,
    pub(super) not_before_ns: u64,
    /// Why nothing is tried before then.
    pub(super) waits: String,
    /// A trial that ended since the last reading with counts.
    pub(super) ended: Option<Ended>,
    /// Last decision, periods of trials apart, and its time.
    pub(super) decided: Option<(Kind, u64)>,
    changes: VecDeque<u64>,
    /// Looks at its VMs that its answer does not rest on yet.
    looks: usize,
    /// Weight of latency for each of its VMs, as last read.
    goals: BTreeMap<VmKey, u64>,
    pub(super) is_new: bool,
    /// A setting that is to be restored, until it is.
    pub(super) owed: Option<Knobs>,
    pub(super) failing: Failing,
    /// It was a VM without a ceiling of its own when it was read last and nothing was set: what it would have followed without
    /// the pilot.
    pub(super) followed: Option<Knobs>,
}

impl Unit {
    pub(super) fn new(scope: Scope, place: Place, now_ns: u64) -> Self {
        Self {
            scope,
            found: place.now,
            place,
            since_ns: now_ns,
            why: "it has not been looked at yet".to_owned(),
            waits: "a trial of an earlier run has failed".to_owned(),
            ..Self::default()
        }
    }

    /// As an earlier run left it, and as the journal has it. Gives the setting to restore, where a trial was under way, or
    /// where the reason for our setting is not known.
    pub(super) fn adopt(&mut self, memory: Option<OfTarget>) -> Option<Knobs> {
        let Place { held, now, .. } = self.place;
        if let Some(held) = held {
            self.found = held.before;
        }
        let ours = held.map(|held| held.ours);
        let Some(of) = memory else {
            // Ours, for a reason that is not known.
            let is_ours = ours == Some(now) && now != self.found;
            self.set = ours.filter(|_| is_ours);
            return is_ours.then_some(self.found);
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
        self.not_before_ns = self.since_ns.saturating_add(of.waits_ns);
        if of.hands_off {
            self.state = State::HandsOff;
            "it was modified externally".clone_into(&mut self.why);
            return None;
        }
        let known = [of.set, ours, Some(of.found), of.trial_from];
        if !known.contains(&Some(now)) {
            self.set = of.set;
            return None;
        }
        self.set = (now != of.found).then_some(now);
        let to = match of.trial_from {
            Some(from) => from,
            None if self.known.measured.is_some() && of.set == Some(now) => now,
            None => of.found,
        };
        if to == now && self.set.is_some() {
            self.state = State::Kept;
            "kept by an earlier run".clone_into(&mut self.why);
        }
        (to != now).then_some(to)
    }

    /// One of its VMs has been looked at; gives whether it is to be weighed again, which plays the halts of all its VMs.
    pub(super) fn looked(&mut self) -> bool {
        self.looks += 1;
        let is_due = self.answer.is_none() || self.looks * OF_MEMBERS >= self.place.members.len();
        if is_due {
            self.looks = 0;
        }
        is_due
    }

    pub(super) fn memory(&self, now_ns: u64) -> OfTarget {
        let ago = |at: &u64| now_ns.saturating_sub(*at);
        let within = |ago: &u64| *ago < HOUR_NS;
        OfTarget {
            scope: self.scope,
            // The setting that a VM follows may be the pilot's.
            found: self.followed.unwrap_or(self.found),
            set: self.set,
            trial_from: match &self.state {
                State::Trial(trial) => Some(trial.from),
                _ => self.owed,
            },
            known: self.known.clone(),
            changed_ago_ns: self.changes.iter().map(ago).filter(within).collect(),
            waits_ns: self.not_before_ns.saturating_sub(now_ns),
            hands_off: matches!(self.state, State::HandsOff),
            goals: self
                .goals
                .iter()
                .map(|(vm, weight)| (*vm, *weight))
                .collect(),
        }
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

    pub(super) fn change_to(&self, to: Knobs) -> Change {
        Change {
            from: self.in_force(),
            to,
            is_unsure: self.failing.is_unsure,
        }
    }

    /// Whether the setting that was set may poll more than the setting found: as it did last, or because its ceiling is
    /// higher, whatever the load becomes.
    pub(super) fn polls_more(&self) -> bool {
        self.set.is_some_and(|set| {
            self.more_poll_percent > 0.0 || set.halt_poll_ns > self.found.halt_poll_ns
        })
    }

    pub(super) fn become_(&mut self, state: State, why: impl Into<String>, now_ns: u64) {
        self.state = state;
        self.why = why.into();
        self.since_ns = now_ns;
    }

    /// The setting found is to be restored.
    pub(super) fn owe_found(&mut self, why: &str, now_ns: u64) {
        self.owed = Some(self.found);
        self.become_(State::BackOff, why, now_ns);
    }

    /// Backs off, for longer each time, also where a setting was kept in between: what is kept and given up again and again under
    /// one load has failed as often.
    pub(super) fn back_off(&mut self, trial_ns: u64, why: impl Into<String>, now_ns: u64) {
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
    pub(super) fn wait(&mut self, ns: u64, why: impl Into<String>, now_ns: u64) {
        self.not_before_ns = now_ns.saturating_add(ns);
        self.waits = why.into();
        self.become_(State::BackOff, self.waits.clone(), now_ns);
    }

    /// The trial that ended last says nothing of the setting: the next may begin as soon as after one that did not fail.
    pub(super) fn has_not_failed(&mut self, ended: &Ended, why: String, now_ns: u64) {
        self.known.failed = self.known.failed.saturating_sub(u32::from(ended.failed));
        let soon_ns = now_ns.saturating_add(ended.trial_ns);
        self.not_before_ns = self.not_before_ns.min(soon_ns);
        if matches!(self.state, State::BackOff) {
            self.why.clone_from(&why);
        }
        self.waits = why;
    }

    /// Takes the goals of VMs in, by what latency is worth to each that is there and has one; gives whether one of them has
    /// changed.
    pub(super) fn take_goals(&mut self, of: impl Fn(&VmKey) -> Option<Option<u64>>) -> bool {
        let mut is_other = false;
        self.goals.retain(|vm, _| of(vm).is_some());
        for vm in &self.place.members {
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
        (self.is_new, self.not_before_ns) = (false, now_ns);
    }

    /// Restoring has failed: it is tried again after a time that doubles each time.
    pub(super) fn not_restored(&mut self, now_ns: u64) {
        let failing = &mut self.failing;
        let doubled = RESTORE_AGAIN_NS << failing.restores.min(RESTORE_DOUBLED);
        failing.restore_at_ns = now_ns.saturating_add(doubled.min(RESTORE_LONGEST_NS));
        failing.restores = failing.restores.saturating_add(1);
    }

    /// Whether the setting to restore may be tried now.
    pub(super) fn may_restore_again(&self, now_ns: u64) -> bool {
        self.failing.restore_at_ns <= now_ns.saturating_add(RESTORE_AGAIN_NS / 2)
    }

    /// This is in force, and nothing is to be restored.
    pub(super) fn is_at(&mut self, knobs: Knobs) {
        let is_found = is_same(self.scope, knobs, self.found);
        self.set = (!is_found).then_some(knobs);
        (self.place.now, self.owed) = (knobs, None);
        self.failing = Failing::default();
        if matches!(self.state, State::BackOff | State::Watching) && !is_found {
            // A setting kept before the trial is still kept, also where an earlier run began that trial.
            self.state = State::Kept;
        }
    }

    /// Whether the setting in force, which is not the expected one, comes from a change of the pilot's that failed and
    /// was made nevertheless: the setting to restore, the setting found, of which the journal has nothing, or the
    /// pilot's setting as the journal has it. In place of the last, the expected setting is to be restored.
    pub(super) fn was_made(&mut self) -> bool {
        let now = self.place.now;
        let is_now = |it: Knobs| is_same(self.scope, it, now);
        if !self.failing.is_unsure {
            return false;
        }
        let is_restored = self.owed.is_some_and(is_now) || is_now(self.found);
        if !is_restored && !self.place.held.is_some_and(|held| is_now(held.ours)) {
            return false;
        }
        if let Some(followed) = self.followed.take() {
            // It has a ceiling of its own now.
            self.found = followed;
        }
        if is_restored {
            self.is_at(now);
        } else {
            self.owed = self.owed.or(Some(self.in_force()));
            self.set = Some(now);
        }
        self.answer = None;
        true
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

    pub(super) fn trial(&self) -> Option<&Trial> {
        match &self.state {
            State::Trial(trial) => Some(trial),
            _ => None,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::ids::Pid;

    fn answer() -> Answer {
        Answer {
            cost: crate::replay::Cost::FREE,
            cost_per_halt_ns: 1.0,
            halts_per_s: 1.0,
            latency_mean_ns: 1.0,
            gap_mean_ns: 1.0,
            found_ratio: Interval::exactly(1.0),
            more_poll_than_found_percent: 0.0,
            choice: None,
            verdict: "no setting is better",
        }
    }

    /// How often a target of so many VMs is weighed in a hundred looks.
    fn weighed(members: u32) -> usize {
        let mut unit = Unit::new(Scope::Host, Place::default(), 0);
        let vm = |pid| VmKey::first(Pid(pid), 1);
        unit.place.members = (0..members).map(vm).collect();
        assert!(unit.looked(), "there is no answer yet");
        unit.answer = Some(answer());
        (0..100).filter(|_| unit.looked()).count()
    }

    #[test]
    fn a_target_of_many_vms_is_weighed_once_an_eighth_of_them_was_looked_at() {
        for (members, times) in [(1, 100), (8, 100), (9, 50), (25, 25), (800, 1)] {
            assert_eq!(weighed(members), times, "{members} VMs");
        }
    }
}
