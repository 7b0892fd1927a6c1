//! Stays in HLT and halts under an offset, followed from stay to stay as the clocks drift.

use super::{Pair, Span, at};

/// An offset that holds at a moment of the guest's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) at_ns: i128,
    pub(super) offset_ns: i128,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Matched {
    pub(super) at_ns: i128,
    /// When its first halt began, less that.
    pub(super) offset_ns: i128,
    /// That less what was expected by those before.
    pub(super) residual_ns: i128,
    pub(super) is_near: bool,
    /// By how much it is longer than its halts with what lies between them.
    pub(super) extra_ns: i128,
    pub(super) halts: u64,
}

/// Tried stays whose first halt begins at the expected time, and how far from that time the halt begins.
#[derive(Debug, Clone)]
pub(super) struct Near {
    residuals_ns: Vec<i128>,
    hlts: u64,
}

impl Near {
    /// The share of them, by the tolerance that they were matched with.
    pub(super) fn share(&self) -> f64 {
        self.residuals_ns.len() as f64 / self.hlts.max(1) as f64
    }

    /// The share of those that begin within this of when they are expected.
    pub(super) fn within(&self, ns: i128) -> f64 {
        let within = self
            .residuals_ns
            .partition_point(|residual| *residual <= ns);
        within as f64 / self.hlts.max(1) as f64
    }

    pub(super) fn median_ns(&self) -> i128 {
        at(&self.residuals_ns, 50)
    }
}

/// How far from the expected moment a halt may begin, where they usually are so far.
pub(super) fn tolerance(usually_ns: i128) -> i128 {
    (8 * usually_ns).max(LEAST_NS)
}

#[derive(Debug, Default)]
pub(super) struct Aligned {
    pub(super) matched: Vec<Matched>,
    /// Stays that were tried while the host recorded.
    hlts: u64,
    /// Those of them in which no halt began or ended.
    without: u64,
    halts: u64,
    overlap_ns: i128,
}

impl Aligned {
    /// The share of the stays whose first halt began when it was expected to.
    pub(super) fn share(&self) -> f64 {
        let near = self.matched.iter().filter(|it| it.is_near);
        near.count() as f64 / self.hlts.max(1) as f64
    }

    /// Those that stayed near where they began: an offset that was followed to another one is that one.
    pub(super) fn near(&self, anchor: Anchor) -> Near {
        let near =
            |it: &&Matched| it.is_near && (it.offset_ns - anchor.offset_ns).abs() < super::SAME_NS;
        let near = self.matched.iter().filter(near);
        let mut residuals_ns: Vec<i128> = near.map(|it| it.residual_ns.abs()).collect();
        residuals_ns.sort_unstable();
        Near {
            residuals_ns,
            hlts: self.hlts,
        }
    }

    /// Halts from the first that a stay holds to the last.
    fn span_of(&self, halts: &[Span]) -> u64 {
        let (Some(first), Some(last)) = (self.matched.first(), self.matched.last()) else {
            return 0;
        };
        let began_before = |it: &Matched| {
            let begun_ns = it.at_ns + it.offset_ns;
            halts.partition_point(|halt| i128::from(halt.start_ns) < begun_ns) as u64
        };
        (began_before(last) + last.halts).saturating_sub(began_before(first))
    }

    pub(super) fn overlap_ns(&self) -> i128 {
        self.overlap_ns
    }

    /// The anchor, with the offset that those around it agree on: farther away clocks have drifted.
    pub(super) fn anchor(&self, anchor: Anchor) -> Anchor {
        const AROUND: usize = 16;
        let at_it = self.matched.partition_point(|it| it.at_ns < anchor.at_ns);
        let last = self.matched.len().min(at_it + AROUND);
        let around = &self.matched[at_it.saturating_sub(AROUND)..last];
        let mut offsets: Vec<i128> = around.iter().map(|it| it.offset_ns).collect();
        offsets.sort_unstable();
        if offsets.is_empty() {
            return anchor;
        }
        Anchor {
            offset_ns: at(&offsets, 50),
            ..anchor
        }
    }

    pub(super) fn pair(&self, cpu: u32, vcpu: u32) -> Pair {
        Pair {
            cpu,
            vcpu,
            hlts: self.hlts,
            matched: self.matched.len() as u64,
            without_halt: self.without,
            halts: self.halts,
            halts_matched: self.matched.iter().map(|it| it.halts).sum(),
        }
    }
}

/// Where a walk is: the offset expected next, and how far off the last ones were.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "units stand at the end of names")]
struct Track {
    offset_ns: i128,
    scale_ns: i128,
    last_ns: i128,
}

/// How far entries vary at first and at least, and what they may be apart at least and at most.
const FIRST_NS: i128 = 25_000;
const STEADY_NS: i128 = 1_000;
const LEAST_NS: i128 = 10_000;
const MOST_NS: i128 = 1_000_000;

/// How fast clocks may drift apart where nothing matches: 500 millionths, the most that NTP slews.
const SLEW: i128 = 2_000;

/// Matches stays with halts from an anchor on, forwards and backwards, so many each way.
pub(super) fn align(stays: &[Span], halts: &[Span], anchor: Anchor, around: usize) -> Aligned {
    let from = stays.partition_point(|stay| i128::from(stay.start_ns) < anchor.at_ns);
    let first = from.saturating_sub(around);
    let last = stays.len().min(from.saturating_add(around));
    let mut walk = Walk {
        stays,
        halts,
        aligned: Aligned::default(),
    };
    let track = Track {
        offset_ns: anchor.offset_ns,
        scale_ns: FIRST_NS,
        last_ns: anchor.at_ns,
    };
    let mut back = track;
    (first..from).rev().for_each(|at| walk.step(at, &mut back));
    walk.aligned.matched.reverse();
    let mut ahead = track;
    (from..last).for_each(|at| walk.step(at, &mut ahead));
    walk.finish(first..last, (back, ahead))
}

struct Walk<'a> {
    stays: &'a [Span],
    halts: &'a [Span],
    aligned: Aligned,
}

impl Walk<'_> {
    /// One stay. KVM halts a vCPU within it, and not before it: so entries tell the offset. Between the end of a halt and
    /// that of its stay the vCPU may have to wait for a CPU.
    fn step(&mut self, number: usize, track: &mut Track) {
        let stay = &self.stays[number];
        let (start_ns, end_ns) = (i128::from(stay.start_ns), stay.end_ns());
        let offset_ns = track.offset_ns;
        if !self.is_recorded(start_ns + offset_ns, end_ns + offset_ns) {
            return;
        }
        self.aligned.hlts += 1;
        let slewed_ns = (start_ns - track.last_ns).abs() / SLEW;
        let near_ns = tolerance(track.scale_ns).max(slewed_ns);
        let near_ns = near_ns.min(MOST_NS);
        // A halt ends within its stay, before the next one begins.
        let next = self.stays.get(number + 1);
        let next_ns = next.map_or(i128::MAX / 2, |next| i128::from(next.start_ns));
        let from = self.ended_by(start_ns + offset_ns);
        let to = self.ended_by((end_ns + near_ns).min(next_ns) + offset_ns);
        let held = self.halts.get(from..to).unwrap_or_default();
        let latest_ns = end_ns.min(next_ns) + offset_ns - near_ns;
        let after = self.halts.get(to.max(from));
        if after.is_some_and(|halt| i128::from(halt.start_ns) < latest_ns) {
            return;
        }
        let (Some(first), Some(last)) = (held.first(), held.last()) else {
            self.aligned.without += 1;
            return;
        };
        if i128::from(first.start_ns) < start_ns + offset_ns - near_ns {
            return;
        }
        let begun_ns = i128::from(first.start_ns);
        let residual_ns = begun_ns - (start_ns + offset_ns);
        let is_near = residual_ns.abs() <= near_ns;
        self.aligned.matched.push(Matched {
            at_ns: start_ns,
            offset_ns: begun_ns - start_ns,
            residual_ns,
            is_near,
            extra_ns: i128::from(stay.length_ns) - (last.end_ns() - begun_ns),
            halts: held.len() as u64,
        });
        if is_near {
            let most_ns = 4 * track.scale_ns.max(slewed_ns);
            track.offset_ns += residual_ns.clamp(-most_ns, most_ns) / 4;
            let apart_ns = residual_ns.abs().min(4 * track.scale_ns);
            track.scale_ns = ((15 * track.scale_ns + apart_ns) / 16).max(STEADY_NS);
            track.last_ns = start_ns;
        }
    }

    fn ended_by(&self, ns: i128) -> usize {
        self.halts.partition_point(|halt| halt.end_ns() <= ns)
    }

    fn is_recorded(&self, from_ns: i128, to_ns: i128) -> bool {
        let (Some(first), Some(last)) = (self.halts.first(), self.halts.last()) else {
            return false;
        };
        from_ns + MOST_NS >= i128::from(first.start_ns) && to_ns <= last.end_ns() + MOST_NS
    }

    fn finish(self, range: std::ops::Range<usize>, (back, ahead): (Track, Track)) -> Aligned {
        let Self {
            stays,
            halts,
            mut aligned,
            ..
        } = self;
        let (Some(first), Some(last)) = (stays[range.clone()].first(), stays[range].last()) else {
            return aligned;
        };
        let from_ns = i128::from(first.start_ns) + back.offset_ns;
        let to_ns = last.end_ns() + ahead.offset_ns;
        aligned.halts = aligned.span_of(halts);
        let (Some(begun), Some(ended)) = (halts.first(), halts.last()) else {
            return aligned;
        };
        let begin_ns = from_ns.max(i128::from(begun.start_ns));
        aligned.overlap_ns = (to_ns.min(ended.end_ns()) - begin_ns).max(0);
        aligned
    }
}
