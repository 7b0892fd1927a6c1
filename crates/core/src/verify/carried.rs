//! Which changes of later kernels a recorded kernel carries, found out from what it did.
//!
//! Stable trees and distributions take changes back and keep the kernel's number. Every rule that such
//! a kernel may have is held against the same halts; the one that leaves no difference, with as few
//! changes as possible, is the kernel's. Where the rule of the number itself leaves none, nothing speaks
//! for any change.

use serde::{Deserialize, Serialize};

use super::{Setup, Verifier};
use crate::event::{Halt, WindowChange};
use crate::kvm::{Backport, Backports, Rule};

/// Of the differences that the rule of the number leaves, one of so many may be left by another one:
/// windows also change for reasons that no recording has.
const NOISE: u64 = 100;

/// Rules that a kernel may have, each held against the same halts.
#[derive(Debug)]
pub struct Trial {
    /// The rule of the kernel's number first, then those with fewer changes first.
    candidates: Vec<(Backports, Verifier)>,
}

/// What a recording says of the changes that its kernel carries.
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
        let mut candidates: Vec<(Backports, Rule)> = Vec::new();
        for backports in Backports::of_windows() {
            let rule = backports.iter().fold(setup.rule, Rule::with);
            if candidates.iter().all(|(_, other)| *other != rule) {
                candidates.push((backports, rule));
            }
        }
        let held = |(backports, rule)| {
            let setup = Setup {
                rule,
                ..setup.clone()
            };
            (backports, Verifier::new(setup))
        };
        (candidates.len() > 1).then(|| Self {
            candidates: candidates.into_iter().map(held).collect(),
        })
    }

    /// The next halt, as [`Verifier::halt`] takes it.
    pub fn halt(&mut self, halt: &Halt, row: Option<&WindowChange>) {
        for (_, verifier) in &mut self.candidates {
            verifier.halt(halt, row);
        }
    }

    /// What came of it.
    pub fn finish(self) -> Carried {
        let found: Vec<(Backports, u64)> = self
            .candidates
            .iter()
            .map(|(backports, verifier)| (*backports, verifier.tally().differences()))
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
