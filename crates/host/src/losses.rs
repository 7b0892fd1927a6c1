//! Losses, reported once.

use std::collections::BTreeMap;

use haltwise_core::event::Lost;

pub(crate) fn push(lost: &mut Vec<Lost>, time_ns: u64, count: u64, place: &'static str) {
    if count > 0 {
        lost.push(Lost {
            time_ns,
            count,
            place: place.to_owned(),
        });
    }
}

/// Events and records that were not read from a ring of perf.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RingLosses {
    pub(crate) lost: u64,
    /// Records that could not be read: a fault of ours or of the kernel.
    pub(crate) unreadable: u64,
}

/// Counts of losses that only grow, by place, as they were last reported.
#[derive(Debug, Default)]
pub(crate) struct Losses(BTreeMap<&'static str, u64>);

impl Losses {
    /// Reports what these counts have grown by since.
    pub(crate) fn report(
        &mut self,
        lost: &mut Vec<Lost>,
        time_ns: u64,
        counts: impl IntoIterator<Item = (u64, &'static str)>,
    ) {
        for (count, place) in counts {
            let before = self.0.insert(place, count).unwrap_or(0);
            push(lost, time_ns, count.saturating_sub(before), place);
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_loss_is_reported_once_with_its_place() {
        let mut losses = Losses::default();
        let mut report = |time_ns, counts: [u64; 3]| {
            let mut lost = Vec::new();
            losses.report(&mut lost, time_ns, counts.into_iter().zip(["a", "b", "c"]));
            let lost = lost.into_iter();
            lost.map(|lost| (lost.time_ns, lost.count, lost.place))
                .collect::<Vec<_>>()
        };
        let of = |time_ns, count, place: &str| (time_ns, count, place.to_owned());
        assert_eq!(report(1, [0; 3]), []);
        assert_eq!(report(2, [3, 0, 1]), [of(2, 3, "a"), of(2, 1, "c")]);
        assert_eq!(report(3, [3, 0, 1]), []);
        assert_eq!(report(4, [4, 9, 1]), [of(4, 1, "a"), of(4, 9, "b")]);
    }
}
