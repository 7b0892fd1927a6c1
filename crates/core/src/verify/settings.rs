//! Possible values of parameters at a moment, as far as a recorder that looks now and then knows.
//!
//! A recorder tells a value when it first sees it. The change itself came some time before: after the
//! last look that still found the old value. In between either may have been in force, and both are
//! given; [`Track::within`] never leaves one out. A value that came and went between two looks is not
//! known.

use crate::parameter::{Parameter, Values};

/// One parameter over the time of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    first: u32,
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

/// The parameters of a side over the time of a recording; those of the other are 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings([Track; Parameter::ALL.len()]);

impl Settings {
    pub fn fixed(values: impl Into<Values>) -> Self {
        let values = values.into();
        Self(Parameter::ALL.map(|parameter| Track::fixed(values.get(parameter).unwrap_or(0))))
    }

    pub fn track(&self, parameter: Parameter) -> &Track {
        &self.0[parameter as usize]
    }

    /// One of them, to be changed.
    pub fn track_mut(&mut self, parameter: Parameter) -> &mut Track {
        &mut self.0[parameter as usize]
    }

    /// Every set of parameters that may have been in force somewhere between two moments, the newest last.
    ///
    /// Parameters that changed together are seen together, but which of two files was written first is not known:
    /// all mixtures are given. `None` if there are more than `most`.
    pub(super) fn within(&self, from_ns: u64, to_ns: u64, most: usize) -> Option<Vec<Values>> {
        let first = Parameter::ALL.into_iter().zip(&self.0);
        let mut all: Vec<Values> = vec![first.map(|(it, track)| (it, track.first)).collect()];
        let moved = Parameter::ALL.into_iter().zip(&self.0);
        for (parameter, track) in moved.filter(|(_, track)| track.changes() > 0) {
            let values = track.within(from_ns, to_ns);
            if all.len().saturating_mul(values.clone().count()) > most {
                return None;
            }
            let with = |so_far: &Values| {
                let so_far = *so_far;
                values
                    .clone()
                    .map(move |value| so_far.with(parameter, value))
            };
            all = all.iter().flat_map(with).collect();
        }
        Some(all)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::kvm::Knobs;

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
    fn mixtures_of_what_changed_together_are_all_possible() {
        let mut settings = Settings::fixed(Knobs::of([100, 2, 10, 0]));
        settings.track_mut(Parameter::Grow).change(0, 10, 3);
        settings.track_mut(Parameter::Shrink).change(0, 10, 1);
        assert_eq!(settings.within(5, 5, 4).unwrap().len(), 4);
        assert_eq!(settings.within(5, 5, 3), None);
        let after = settings.within(10, 10, 1).unwrap();
        assert_eq!(after.len(), 1);
        let after = Knobs::from(after[0]);
        assert_eq!((after.grow, after.shrink), (3, 1));
    }
}
