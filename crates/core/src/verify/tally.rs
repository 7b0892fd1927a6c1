//! What was checked, what matched, and what was not checked and why.

use std::collections::BTreeMap;

use super::{Difference, Verdict};

crate::names! {
    /// What KVM did with a window at the end of a halt, or where it began.
    ///
    /// In the order in which they are printed.
    pub enum Transition {
        Grow = "grow",
        Shrink = "shrink",
        /// It changed the window without a word: cut it to the ceiling, or set it to 0 under a ceiling of 0.
        Silent = "silent",
        /// It left the window as it was.
        None = "none",
    }
}

crate::names! {
    /// Why a halt could not be checked.
    ///
    /// In the order in which they are printed.
    pub enum Skip {
        /// The first of its vCPU: the window that the halt before left is not known.
        First = "first",
        /// Events were lost since the halt before.
        Loss = "loss",
        /// It stands after a later halt of its thread, or comes right after such a one.
        OutOfOrder = "out-of-order",
        /// Its thread could not be given to a VM.
        Unplaced = "unplaced",
        /// Its window, or that of the halt before, was not recorded.
        Window = "window",
        /// Its window was left alone, as of a vCPU that is not allowed to poll; the recording does not show whether it was.
        Veto = "veto",
        /// The settings changed more often since the last halt than can be tried.
        Settings = "settings",
    }
}

impl Skip {
    /// The reason in words, after a count of halts.
    pub fn reason(self) -> &'static str {
        match self {
            Self::First => "the first of their vCPU",
            Self::Loss => "after a loss of events",
            Self::OutOfOrder => "out of order",
            Self::Unplaced => "of threads of unknown VMs",
            Self::Window => "whose window was not recorded",
            Self::Veto => {
                "as for a vCPU that may not poll because of steal time, which is not recorded"
            }
            Self::Settings => "after too many changes of settings",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Count {
    pub checked: u64,
    /// Of these, as the rule has it.
    pub matched: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transitions {
    /// The window was cut where the halt began, beside what happened at its end.
    pub(super) also_cut: bool,
    /// What happened in all; at its end, if there are two.
    pub(super) end: Transition,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    pub halts: u64,
    /// Halts checked, and matched.
    pub checked: Count,
    /// Of those checked, how many against more than one set of settings.
    pub several_settings: u64,
    /// Of those matched, how many are of vCPUs that were not allowed to poll: KVM left their windows alone.
    pub vetoed: u64,
    /// Of the differences, how many are as of a vCPU that must not poll.
    pub as_if_vetoed: u64,
    /// Halts not checked, by reason.
    pub skipped: BTreeMap<Skip, u64>,
    transitions: BTreeMap<Transition, Count>,
}

impl Tally {
    /// Transitions of a kind. A halt that had its window cut where it began, and grew or shrank where
    /// it ended, counts in both kinds.
    pub fn of(&self, transition: Transition) -> Count {
        self.transitions
            .get(&transition)
            .copied()
            .unwrap_or_default()
    }

    pub fn differences(&self) -> u64 {
        self.checked.checked - self.checked.matched
    }

    /// Halts that were not checked.
    pub fn not_checked(&self) -> u64 {
        self.skipped.values().sum()
    }

    pub(super) fn add(&mut self, verdict: &Verdict) {
        self.halts += 1;
        match verdict {
            Verdict::Matched(_) => {
                self.checked.checked += 1;
                self.checked.matched += 1;
            }
            Verdict::Differs(_) => self.checked.checked += 1,
            Verdict::Skipped(why) => *self.skipped.entry(*why).or_default() += 1,
        }
    }

    pub(super) fn judged(&mut self, settings: usize, transitions: Transitions) {
        self.several_settings += u64::from(settings > 1);
        let also = transitions.also_cut.then_some(Transition::Silent);
        for transition in also.into_iter().chain([transitions.end]) {
            let count = self.transitions.entry(transition).or_default();
            count.checked += 1;
            count.matched += 1;
        }
    }

    /// A difference counts as what the kernel did.
    pub(super) fn judged_differently(&mut self, difference: &Difference) {
        self.several_settings += u64::from(difference.settings > 1);
        self.as_if_vetoed += u64::from(difference.as_if_vetoed);
        let found = difference.found;
        let did = match found.call {
            Some(call) if call.grow => Transition::Grow,
            Some(_) => Transition::Shrink,
            None if found.next_ns.is_some_and(|ns| ns != difference.before_ns) => {
                Transition::Silent
            }
            None => Transition::None,
        };
        self.transitions.entry(did).or_default().checked += 1;
    }
}
