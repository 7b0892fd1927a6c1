//! What KVM's parameters may have been at a moment, as far as a recorder that looks now and then knows.
//!
//! A recorder tells a value when it first sees it. The change itself came some time before: after the
//! last look that still found the old value. In between either may have been in force, and both are
//! given; [`Track::within`] never leaves one out. A value that came and went between two looks is not
//! known to anybody.

use crate::event::{Knob, KnobScope};
use crate::kvm::Knobs;

/// One parameter over the time of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    first: u32,
    /// In order of time.
    changes: Vec<Change>,
}

/// A value that took the place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    /// A look that still found the old value.
    after_ns: u64,
    /// The look that found the new one.
    by_ns: u64,
    value: u32,
}

impl Track {
    /// A parameter that never changes.
    pub const fn fixed(value: u32) -> Self {
        Self {
            first: value,
            changes: Vec::new(),
        }
    }

    /// The next value, seen at `by_ns`; it was another one until `after_ns` at least.
    ///
    /// To be told in order of time. The same value again changes nothing.
    pub fn change(&mut self, after_ns: u64, by_ns: u64, value: u32) {
        if self.last() != value {
            let after_ns = after_ns.min(by_ns);
            self.changes.push(Change {
                after_ns,
                by_ns,
                value,
            });
        }
    }

    /// The value at the end.
    pub fn last(&self) -> u32 {
        self.changes.last().map_or(self.first, |last| last.value)
    }

    /// The value at the start.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// How often it changed.
    pub fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Every value that may have been in force somewhere between two moments, both included.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = u32> + Clone + '_ {
        // A value ends, at the latest, when its successor is seen; it begins, at the earliest, when its
        // predecessor was seen last.
        let ends = self
            .changes
            .partition_point(|change| change.by_ns <= from_ns);
        let begins = self
            .changes
            .partition_point(|change| change.after_ns <= to_ns);
        let value = |index: usize| match index.checked_sub(1) {
            None => self.first,
            Some(before) => self.changes[before].value,
        };
        (ends..=begins.max(ends)).map(value)
    }
}

/// The parameters of the module `kvm` over the time of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub halt_poll_ns: Track,
    /// `halt_poll_ns_grow`.
    pub grow: Track,
    /// `halt_poll_ns_grow_start`.
    pub grow_start: Track,
    /// `halt_poll_ns_shrink`.
    pub shrink: Track,
}

/// A parameter's name, as the file under `/sys/module/kvm/parameters` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parameter {
    HaltPollNs,
    /// `halt_poll_ns_grow`
    Grow,
    /// `halt_poll_ns_grow_start`
    GrowStart,
    /// `halt_poll_ns_shrink`
    Shrink,
}

impl Parameter {
    pub const ALL: [Self; 4] = [Self::HaltPollNs, Self::Grow, Self::GrowStart, Self::Shrink];

    /// KVM's name for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HaltPollNs => "halt_poll_ns",
            Self::Grow => "halt_poll_ns_grow",
            Self::GrowStart => "halt_poll_ns_grow_start",
            Self::Shrink => "halt_poll_ns_shrink",
        }
    }

    /// Which one a recorded setting is, if it is one of them and can be read.
    pub fn of(knob: &Knob) -> Option<(Self, u32)> {
        let known = Self::ALL.into_iter();
        let parameter = known
            .filter(|_| knob.scope == KnobScope::Host)
            .find(|parameter| parameter.as_str() == knob.name)?;
        Some((parameter, knob.value.trim().parse().ok()?))
    }
}

impl Settings {
    /// Parameters that never change.
    pub const fn fixed(knobs: Knobs) -> Self {
        Self {
            halt_poll_ns: Track::fixed(knobs.halt_poll_ns),
            grow: Track::fixed(knobs.grow),
            grow_start: Track::fixed(knobs.grow_start),
            shrink: Track::fixed(knobs.shrink),
        }
    }

    pub fn track(&self, parameter: Parameter) -> &Track {
        match parameter {
            Parameter::HaltPollNs => &self.halt_poll_ns,
            Parameter::Grow => &self.grow,
            Parameter::GrowStart => &self.grow_start,
            Parameter::Shrink => &self.shrink,
        }
    }

    /// One of them, to be changed.
    pub fn track_mut(&mut self, parameter: Parameter) -> &mut Track {
        match parameter {
            Parameter::HaltPollNs => &mut self.halt_poll_ns,
            Parameter::Grow => &mut self.grow,
            Parameter::GrowStart => &mut self.grow_start,
            Parameter::Shrink => &mut self.shrink,
        }
    }

    /// Every set of parameters that may have been in force somewhere between two moments.
    ///
    /// What changed together is seen together, but which of two files was written first is not known:
    /// all mixtures are given. `None` if there are more than `most`.
    pub(super) fn within(&self, from_ns: u64, to_ns: u64, most: usize) -> Option<Vec<Knobs>> {
        let counts = Parameter::ALL.map(|it| self.track(it).within(from_ns, to_ns).count());
        let product = counts.into_iter().try_fold(1, usize::checked_mul)?;
        if product > most {
            return None;
        }
        let mut all = Vec::with_capacity(product);
        for halt_poll_ns in self.halt_poll_ns.within(from_ns, to_ns) {
            for grow in self.grow.within(from_ns, to_ns) {
                for grow_start in self.grow_start.within(from_ns, to_ns) {
                    all.extend(self.shrink.within(from_ns, to_ns).map(|shrink| Knobs {
                        halt_poll_ns,
                        grow,
                        grow_start,
                        shrink,
                    }));
                }
            }
        }
        Some(all)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn track() -> Track {
        let mut track = Track::fixed(1);
        track.change(100, 200, 2);
        track.change(200, 300, 3);
        track
    }

    fn within(from_ns: u64, to_ns: u64) -> Vec<u32> {
        track().within(from_ns, to_ns).collect()
    }

    #[test]
    fn between_two_looks_either_value_may_hold() {
        assert_eq!(within(0, 99), [1]);
        assert_eq!(within(0, 100), [1, 2]);
        assert_eq!(within(150, 150), [1, 2]);
        assert_eq!(within(199, 199), [1, 2]);
        assert_eq!(within(200, 200), [2, 3]);
        assert_eq!(within(299, 299), [2, 3]);
        assert_eq!(within(300, 300), [3]);
        assert_eq!(within(u64::MAX, u64::MAX), [3]);
    }

    #[test]
    fn a_long_halt_may_have_seen_them_all() {
        assert_eq!(within(50, 250), [1, 2, 3]);
        assert_eq!(within(50, 150), [1, 2]);
        assert_eq!(within(0, u64::MAX), [1, 2, 3]);
        assert_eq!(within(250, 50), [2]);
    }

    #[test]
    fn the_same_value_again_is_no_change() {
        let mut track = Track::fixed(7);
        track.change(0, 10, 7);
        assert_eq!((track.changes(), track.last()), (0, 7));
        track.change(20, 10, 8);
        assert_eq!(track.within(9, 9).collect::<Vec<_>>(), [7]);
        assert_eq!(track.within(10, 10).collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn parameters_are_known_by_their_names_and_only_the_hosts() {
        let knob = |name: &str, scope, value: &str| Knob {
            time_ns: 0,
            name: name.to_owned(),
            scope,
            value: value.to_owned(),
        };
        let host = KnobScope::Host;
        for parameter in Parameter::ALL {
            let read = Parameter::of(&knob(parameter.as_str(), host, "7\n"));
            assert_eq!(read, Some((parameter, 7)));
        }
        assert_eq!(Parameter::of(&knob("halt_poll_max_steal", host, "7")), None);
        assert_eq!(Parameter::of(&knob("halt_poll_ns", host, "-1")), None);
        let vm = KnobScope::Vm(crate::ids::VmIndex(0));
        assert_eq!(Parameter::of(&knob("halt_poll_ns", vm, "7")), None);
    }

    #[test]
    fn mixtures_of_what_changed_together_are_all_possible() {
        let mut settings = Settings::fixed(Knobs {
            halt_poll_ns: 100,
            grow: 2,
            grow_start: 10,
            shrink: 0,
        });
        settings.track_mut(Parameter::Grow).change(0, 10, 3);
        settings.track_mut(Parameter::Shrink).change(0, 10, 1);
        assert_eq!(settings.within(5, 5, 4).unwrap().len(), 4);
        assert_eq!(settings.within(5, 5, 3), None);
        let after = settings.within(10, 10, 1).unwrap();
        assert_eq!(after.len(), 1);
        assert_eq!((after[0].grow, after[0].shrink), (3, 1));
    }
}
