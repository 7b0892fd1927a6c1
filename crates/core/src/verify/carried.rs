//! Which changes of later kernels a recorded kernel carries, found out from what it did.
//!
//! Stable trees and distributions take changes back and keep the kernel's number. The rule that leaves no
//! difference, with as few changes as possible, is the kernel's. Where the rule of the number itself leaves
//! none, nothing speaks for any change.
//!
//! **Order.** All sets are held against the halts in one pass, and each set joins late and leaves early:
//!
//! 1. The rule of the number is held from the first halt to the last.
//! 2. A change joins at the first halt that can show it (`Trial::shows`), oldest change first. Until then
//!    the rules with and without it agree on every halt, so the sets with it begin as copies of those without.
//! 3. A set whose rule is that of another set is left out: the smaller set is there already.
//! 4. A set leaves when it has more differences than noise explains (`REFUTED`).
//! 5. At the end the set with the fewest differences is taken; among equals the smallest, then the oldest.
//!
//! So a kernel that carries nothing, or one change, soon costs two or three rules, not all of them.

use serde::{Deserialize, Serialize};

use super::{Setup, Verifier};
use crate::event::{CeilingSource, Halt, WindowCall, WindowChange};
use crate::kvm::{Backport, Backports};

/// Another rule may leave one in so many of the differences that the rule of the version number leaves:
/// windows also change for reasons that no recording has.
const NOISE: u64 = 100;

/// A set with more differences than this, and than noise explains so far, is refuted. Noise may come before
/// the differences that it is measured by, so this is far above what noise alone amounts to.
const REFUTED: u64 = 1000;

/// Rules that a kernel may have, each held against the same halts.
#[derive(Debug)]
pub struct Trial {
    upstream: Verifier,
    /// The others that are not refuted.
    candidates: Vec<(Backports, Verifier)>,
    /// Changes that no halt could show yet, oldest first.
    waiting: Vec<Backport>,
}

/// Evidence in a recording of the changes that the kernel carries.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Carried {
    /// The changes; none where nothing speaks for any, or no rule explains the recording.
    pub backports: Backports,
    /// Others that explain the recording just as well.
    pub equally: Vec<Backports>,
    /// Changes that may be carried too: with each of them the recording is explained just as well.
    pub undecided: Backports,
    /// Differences from the rule of the kernel's number.
    pub differences_upstream: u64,
    /// Differences that are left.
    pub differences: u64,
}

impl Trial {
    /// A trial of all that may be carried by the kernel whose rule `setup` has; `None` if that is
    /// nothing that windows show.
    pub fn new(setup: &Setup) -> Option<Self> {
        setup.rule.may_carry_more().then(|| Self {
            upstream: Verifier::new(setup.clone()),
            candidates: Vec::new(),
            waiting: Backport::of_windows().collect(),
        })
    }

    /// The next halt, as [`Verifier::halt`] takes it.
    pub fn halt(&mut self, halt: &Halt, row: Option<&WindowChange>) {
        let cap = self.upstream.setup().cap;
        let mut waiting = std::mem::take(&mut self.waiting);
        for backport in waiting.extract_if(.., |it| Self::shows(*it, halt, cap)) {
            self.join(backport);
        }
        self.waiting = waiting;
        self.upstream.halt(halt, row);
        let most = REFUTED + self.upstream.tally().differences() / NOISE;
        self.candidates.retain_mut(|(_, verifier)| {
            verifier.halt(halt, row);
            verifier.tally().differences() <= most
        });
    }

    /// Whether the rules with and without a change may judge a halt differently, `cap` being the ceiling of
    /// every VM if that is given.
    fn shows(backport: Backport, halt: &Halt, cap: Option<u32>) -> bool {
        match backport {
            Backport::NeedResched | Backport::BlockTime => false,
            Backport::GrowStart => halt.change == WindowCall::Grow,
            // Without a ceiling of its own a VM has that of the module parameter.
            Backport::VmCeiling | Backport::GrowthCap => {
                cap.is_some()
                    || halt.ceiling_ns.is_some() && halt.ceiling_source != CeilingSource::Param
            }
            Backport::ShrinkFloor => halt.change == WindowCall::Shrink,
            Backport::LiveCeiling => true,
        }
    }

    fn join(&mut self, backport: Backport) {
        let without = std::iter::once((Backports::NONE, &self.upstream));
        let without = without.chain(self.candidates.iter().map(|(set, it)| (*set, it)));
        let with = without.map(|(set, it)| (set.with(backport), it.carrying(backport)));
        for (set, verifier) in with.collect::<Vec<_>>() {
            let rule = verifier.setup().rule;
            let mut held = self.candidates.iter().map(|(_, it)| it.setup().rule);
            if rule != self.upstream.setup().rule && !held.any(|held| held == rule) {
                self.candidates.push((set, verifier));
            }
        }
    }

    /// Result of the trial.
    pub fn finish(mut self) -> Carried {
        self.candidates.sort_by_key(|(set, _)| (set.len(), *set));
        let upstream = (Backports::NONE, self.upstream);
        let all = std::iter::once(&upstream).chain(&self.candidates);
        let found: Vec<(Backports, u64)> = all
            .map(|(set, verifier)| (*set, verifier.tally().differences()))
            .collect();
        choose(&found)
    }
}

/// Chooses among candidates with their differences, the rule of the number first.
fn choose(found: &[(Backports, u64)]) -> Carried {
    let upstream = found.first().map_or(0, |(_, differences)| *differences);
    let of = |wanted: Backports| {
        let found = found.iter().find(|(backports, _)| *backports == wanted);
        found.map(|(_, differences)| *differences)
    };
    let best = found
        .iter()
        .min_by_key(|(backports, differences)| (*differences, backports.len()))
        .filter(|(_, left)| *left <= upstream / NOISE);
    let explained = best.is_some();
    let (backports, differences) = best.copied().unwrap_or((Backports::NONE, upstream));
    let as_good = found.iter().filter(|(other, left)| {
        *left == differences && other.len() == backports.len() && *other != backports
    });
    let equally: Vec<Backports> = as_good.map(|(other, _)| *other).collect();
    let may_be_too = |backport: &Backport| {
        let more = backports.with(*backport);
        explained && more != backports && of(more).is_some_and(|left| left <= differences)
    };
    Carried {
        backports,
        undecided: if equally.is_empty() {
            Backport::ALL.into_iter().filter(may_be_too).collect()
        } else {
            Backports::NONE
        },
        equally,
        differences_upstream: upstream,
        differences,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const FLOOR: Backports = Backports::NONE.with(Backport::ShrinkFloor);
    const LIVE: Backports = Backports::NONE.with(Backport::LiveCeiling);
    const BOTH: Backports = FLOOR.with(Backport::LiveCeiling);

    #[test]
    fn what_leaves_no_difference_with_the_fewest_changes_is_carried() {
        let none = Backports::NONE;
        for (left, carried, equally, undecided) in [
            // Nothing speaks for anything.
            ([0, 0, 0, 0], none, &[][..], BOTH),
            ([0, 7, 0, 7], none, &[], LIVE),
            ([0, 7, 7, 7], none, &[], none),
            ([7, 0, 7, 0], FLOOR, &[], LIVE),
            ([7, 0, 7, 3], FLOOR, &[], none),
            ([7, 7, 0, 0], LIVE, &[], FLOOR),
            ([7, 3, 4, 0], BOTH, &[], none),
            ([7, 0, 0, 0], FLOOR, &[LIVE], none),
            // No rule explains it.
            ([7, 1, 7, 2], none, &[], none),
            // All but a little.
            ([900, 9, 900, 9], FLOOR, &[], LIVE),
            ([900, 10, 900, 11], none, &[], none),
        ] {
            let found: Vec<_> = [none, FLOOR, LIVE, BOTH].into_iter().zip(left).collect();
            let chosen = choose(&found);
            assert_eq!(chosen.backports, carried, "{left:?}");
            assert_eq!(chosen.equally, equally, "{left:?}");
            assert_eq!(chosen.undecided, undecided, "{left:?}");
            assert_eq!(chosen.differences_upstream, left[0], "{left:?}");
        }
        assert_eq!(choose(&[]), Carried::default());
    }
}
