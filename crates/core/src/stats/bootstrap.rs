//! How far a difference between two settings can be trusted: bootstrap over blocks of time.
//!
//! Halts of a vCPU hang together, and a load has moods; blocks of time hardly do. So blocks are drawn
//! with replacement, the same for both settings, and the difference computed again each time. The
//! middle 95 % of what comes of it is the interval (Künsch, "The Jackknife and the Bootstrap for
//! General Stationary Observations", 1989, with blocks that do not overlap).

use super::{Fold, Interval, folded, percentile_of_sorted};
use crate::workload::SplitMix64;

/// How often blocks are drawn.
pub const DRAWS: usize = 2_000;

/// Fewer blocks with halts than this give no interval.
pub const FEWEST_BLOCKS: usize = 8;

/// The intervals of figures of two settings, over the same blocks; one that is not full does not count. `seed` draws the
/// blocks, the same for all figures.
pub fn bootstrap<S: Fold + Default, const N: usize>(
    own: &[S],
    other: &[S],
    is_full: impl Fn(&S) -> bool,
    seed: u64,
    figures: impl Fn(&S, &S) -> [f64; N],
) -> [Interval; N] {
    let values = figures(&folded(own), &folded(other));
    let both = own.iter().zip(other);
    let full: Vec<(&S, &S)> = both.filter(|(own, _)| is_full(own)).collect();
    if full.len() < FEWEST_BLOCKS {
        return values.map(Interval::unknown);
    }
    let mut draw = SplitMix64(seed);
    let mut drawn = [(); N].map(|()| Vec::with_capacity(DRAWS));
    for _ in 0..DRAWS {
        let (mut sum, mut others) = (S::default(), S::default());
        for _ in 0..full.len() {
            let index = usize::try_from(draw.below(full.len() as u64)).unwrap_or(0);
            let (own, other) = full[index];
            sum.fold(own);
            others.fold(other);
        }
        for (drawn, value) in drawn.iter_mut().zip(figures(&sum, &others)) {
            drawn.push(value);
        }
    }
    let mut intervals = values.map(|value| Interval::around(value, 0.0));
    for (interval, drawn) in intervals.iter_mut().zip(&mut drawn) {
        drawn.sort_by(f64::total_cmp);
        let at = |share| percentile_of_sorted(drawn, share).unwrap_or(interval.value);
        (interval.low, interval.high) = (at(0.025), at(0.975));
    }
    intervals
}
