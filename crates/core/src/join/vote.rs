//! Offsets between two clocks that the longest stays of a stretch agree on.

use super::Span;
use super::align::Anchor;

/// Stays of a stretch, and for how long one lasts at most: clocks that drift by 100 millionths are 0.2 ms apart at its end.
const STAYS: usize = 256;
const LONGEST_NS: i128 = 2_000_000_000;

const STRETCHES: usize = 5;

/// Number of the longest stays of a stretch that vote: short stays are too much alike.
const VOTERS: usize = 96;

/// A stay is longer than its halt by the exit and the entry: at most by this, or by a quarter of it.
const EXIT_NS: u64 = 600_000;

/// More halts of about a length than this name nothing.
const MOST_ALIKE: usize = 6_000;

/// Votes this near each other agree, first roughly, then as near as entries are.
const WINDOWS_NS: [i128; 2] = [400_000, 60_000];

const OFFSETS: usize = 4;

pub(super) fn stretches(stays: &[Span]) -> Vec<&[Span]> {
    let steps = STRETCHES.min(stays.len().div_ceil(STAYS)).max(1);
    let cut = |step: usize| {
        let first = stays.len() * step / steps;
        let rest = &stays[first..stays.len().min(first + STAYS)];
        let start_ns = rest.first().map_or(0, |stay| i128::from(stay.start_ns));
        let end = rest.partition_point(|stay| stay.end_ns() - start_ns <= LONGEST_NS);
        &rest[..end]
    };
    (0..steps).map(cut).collect()
}

/// The halts of a vCPU in order of their lengths.
pub(super) struct ByLength {
    halts: Vec<Span>,
}

impl ByLength {
    pub(super) fn new(halts: &[Span]) -> Self {
        let mut halts = halts.to_vec();
        halts.sort_by_key(|halt| halt.length_ns);
        Self { halts }
    }

    /// Offsets that many stays of a stretch agree on, those of most first.
    pub(super) fn offsets(&self, stretch: &[Span]) -> Vec<Anchor> {
        let mut longest: Vec<&Span> = stretch.iter().collect();
        longest.sort_by_key(|stay| std::cmp::Reverse(stay.length_ns));
        longest.truncate(VOTERS);
        let Some(at_ns) = longest.iter().map(|stay| i128::from(stay.start_ns)).min() else {
            return Vec::new();
        };
        let mut votes: Vec<i128> = Vec::new();
        for stay in longest {
            let alike = self.alike(stay);
            if alike.len() <= MOST_ALIKE {
                let offset = |halt: &Span| i128::from(halt.start_ns) - i128::from(stay.start_ns);
                votes.extend(alike.iter().map(offset));
            }
        }
        votes.sort_unstable();
        let mut anchors = Vec::new();
        while anchors.len() < OFFSETS
            && let Some(offset_ns) = densest(&votes)
        {
            votes.retain(|vote| (vote - offset_ns).abs() > WINDOWS_NS[0]);
            anchors.push(Anchor { at_ns, offset_ns });
        }
        anchors
    }

    /// Halts that a stay may hold, by their length.
    fn alike(&self, stay: &Span) -> &[Span] {
        let least = stay.length_ns - EXIT_NS.max(stay.length_ns / 4).min(stay.length_ns);
        let from = self.halts.partition_point(|halt| halt.length_ns < least);
        let to = self
            .halts
            .partition_point(|halt| halt.length_ns <= stay.length_ns.saturating_add(5_000));
        &self.halts[from..to.max(from)]
    }
}

/// The middle of where votes are densest; `None` where no two agree.
fn densest(votes: &[i128]) -> Option<i128> {
    let mut votes = votes;
    for width_ns in WINDOWS_NS {
        let (mut best, mut first) = (0..0, 0);
        for last in 0..votes.len() {
            while votes[last] - votes[first] > width_ns {
                first += 1;
            }
            if last + 1 - first > best.len() {
                best = first..last + 1;
            }
        }
        votes = &votes[best];
    }
    (votes.len() > 1).then(|| votes[votes.len() / 2])
}
