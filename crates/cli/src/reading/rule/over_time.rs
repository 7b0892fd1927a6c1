//! Parameters and losses of a capture over its time.

use std::collections::BTreeMap;

use haltwise_core::event::{HostSample, Knob, Lost};
use haltwise_core::verify::loss::Losses;
use haltwise_core::verify::settings::Track;

use crate::reading::opened::{Broken, Opened, in_a_line};

/// How far around a loss its events may lie where the recorder left no samples of its own: as far as
/// these would be apart.
const LOSS_NS: u64 = 1_000_000_000;

/// A recorded value of a parameter, with the last moment that is known to have had the value before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<P> {
    after_ns: u64,
    by_ns: u64,
    parameter: P,
    value: u32,
}

pub(super) fn over_time<P: Copy + Ord>(
    opened: &Opened,
    of: impl Fn(&Knob) -> Option<(P, u32)>,
    notes: &mut Vec<String>,
) -> (Vec<Change<P>>, Losses) {
    let (knobs, lost, samples) = (opened.knobs(), opened.lost(), opened.host_samples());
    let broken: [Option<&Broken>; 3] = [
        knobs.broken.as_ref(),
        lost.broken.as_ref(),
        samples.broken.as_ref(),
    ];
    notes.extend(broken.into_iter().flatten().map(in_a_line));
    let changes = changes(opened.info().knobs.iter().chain(&knobs.rows), of);
    let lost = lost.rows.iter().filter(|lost| lost.place != Lost::SCHED);
    let mut stretches: Vec<Stretch> = lost.map(|lost| Stretch::around(lost.time_ns)).collect();
    stretches.sort_unstable_by_key(|stretch| stretch.told_ns);
    stretch(&samples.rows, &mut stretches);
    let mut losses = Losses::default();
    for stretch in stretches {
        losses.add(stretch.from, stretch.to);
    }
    (changes, losses)
}

/// The parameters that are meant among the settings, in order of time. Each had its value before until that one
/// was last told, at least: a recorder tells the old value once more where it tells a new one.
pub(super) fn changes<'a, P: Copy + Ord>(
    knobs: impl Iterator<Item = &'a Knob>,
    of: impl Fn(&Knob) -> Option<(P, u32)>,
) -> Vec<Change<P>> {
    let mut changes: Vec<Change<P>> = knobs
        .filter_map(|knob| {
            let (parameter, value) = of(knob)?;
            Some(Change {
                after_ns: 0,
                by_ns: knob.time_ns,
                parameter,
                value,
            })
        })
        .collect();
    changes.sort_by_key(|change| change.by_ns);
    let mut read = BTreeMap::new();
    for change in &mut changes {
        let before = read.insert(change.parameter, change.by_ns);
        change.after_ns = before.unwrap_or(0);
    }
    changes
}

/// One of them over time, if it was recorded.
pub(super) fn recorded<P: Copy + Ord>(changes: &[Change<P>], parameter: P) -> Option<Track> {
    let mut told = changes.iter().filter(|it| it.parameter == parameter);
    let mut track = Track::fixed(told.next()?.value);
    for it in told {
        track.change(it.after_ns, it.by_ns, it.value);
    }
    Some(track)
}

/// A loss, and where its events may lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    told_ns: u64,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Stretch {
    pub(super) fn around(time_ns: u64) -> Self {
        Self {
            told_ns: time_ns,
            from: time_ns.saturating_sub(LOSS_NS),
            to: time_ns.saturating_add(LOSS_NS),
        }
    }

    /// The last two samples before it, where there were any.
    pub(super) fn begin(&mut self, before: Option<u64>, last: Option<u64>) {
        if last.is_some() {
            self.from = self.from.min(before.unwrap_or(0));
        }
    }
}

/// Stretches losses by when the recorder looked: it samples the host after it has counted them.
///
/// A loss may have happened right after the count before its own, which is before the sample before
/// that; and it is recorded with the time at which its count began, so that it may lie later than that.
fn stretch(samples: &[HostSample], losses: &mut [Stretch]) {
    let (mut before, mut last) = (None, None);
    let (mut begun, mut ended) = (0, 0);
    for &HostSample { time_ns, .. } in samples {
        while losses.get(begun).is_some_and(|it| it.told_ns < time_ns) {
            losses[begun].begin(before, last);
            begun += 1;
        }
        while ended < begun {
            losses[ended].to = losses[ended].to.max(time_ns);
            ended += 1;
        }
        before = last.replace(time_ns);
    }
    losses[begun..]
        .iter_mut()
        .for_each(|it| it.begin(before, last));
}
