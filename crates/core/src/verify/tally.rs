//! Counts of checked halts, of matched halts, and of halts that were not checked, with the reason.

use std::collections::BTreeMap;

use super::Verdict;
use crate::kvm::Call;

crate::names! {
    /// Action of KVM on a window at the end of a halt, or at the beginning of a halt.
    ///
    /// In the order in which they are printed.
    pub enum Transition {
        /// KVM called it, whether or not the window changed.
        Grow = "grow",
        /// KVM called it, whether or not the window changed.
        Shrink = "shrink",
        /// The window changed without a call: cut to the ceiling, or 0 under a ceiling of 0.
        Silent = "silent",
        /// Nothing happened.
        None = "none",
    }
}

impl Transition {
    /// A step from one window to another; of an unknown one it is taken that it stayed.
    pub(super) fn of(call: Option<Call>, before_ns: u32, next_ns: Option<u32>) -> Self {
        match call {
            Some(call) if call.grow => Self::Grow,
            Some(_) => Self::Shrink,
            None if next_ns.is_some_and(|ns| ns != before_ns) => Self::Silent,
            None => Self::None,
        }
    }
}

crate::names! {
    /// Why a halt could not be checked.
    ///
    /// In the order in which they are printed.
    pub enum Skip {
        /// The first of its vCPU, without a call that shows the window before, and not under a ceiling of 0.
        First = "first",
        /// Events were lost since the halt before.
        Loss = "loss",
        /// It stands after a later one of its thread, or right after such a halt.
        OutOfOrder = "out-of-order",
        /// No VM is known for its thread.
        Unplaced = "unplaced",
        /// Its window, or the one before, was not recorded.
        Window = "window",
        /// s390 only: KVM left its window alone, as of a vCPU that steal time keeps from polling, which is not recorded.
        Veto = "veto",
        /// Settings changed more often before it than can be tried.
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
    /// How many of the checked match the rule.
    pub matched: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    pub halts: u64,
    /// Halts checked, and matched.
    pub checked: Count,
    /// Halts checked against more than one set of settings.
    pub several_settings: u64,
    /// Matched halts of vCPUs that were not allowed to poll: KVM left the windows alone.
    pub vetoed: u64,
    /// Differences in which KVM acted as for a vCPU that must not poll.
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

    pub(super) fn add(&mut self, verdict: &Verdict) {
        self.halts += 1;
        match verdict {
            Verdict::Matched(_) => {
                self.checked.checked += 1;
                self.checked.matched += 1;
            }
            Verdict::Differs(difference) => {
                self.checked.checked += 1;
                self.several_settings += u64::from(difference.settings > 1);
                self.as_if_vetoed += u64::from(difference.as_if_vetoed);
                // It counts as what the kernel did.
                let (found, before_ns) = (difference.found, difference.before_ns);
                let did = Transition::of(found.call, before_ns, found.next_ns);
                self.transitions.entry(did).or_default().checked += 1;
            }
            Verdict::Skipped(why) => *self.skipped.entry(*why).or_default() += 1,
        }
    }

    /// Counts what a halt that matched did at its `end`; `also_cut`: its window was cut where it began.
    pub(super) fn matched(&mut self, settings: usize, also_cut: bool, end: Transition) {
        self.several_settings += u64::from(settings > 1);
        let also = also_cut.then_some(Transition::Silent);
        for transition in also.into_iter().chain([end]) {
            let count = self.transitions.entry(transition).or_default();
            count.checked += 1;
            count.matched += 1;
        }
    }
}
