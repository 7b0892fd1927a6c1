//! How far a difference between two settings can be trusted: bootstrap over blocks of time.
//!
//! Halts of a vCPU hang together, and a load has moods; blocks of time hardly do. So blocks are drawn
//! with replacement, the same for both settings, and the difference computed anew, many times. The
//! middle 95 % of what comes of it is the interval (Künsch, "The Jackknife and the Bootstrap for
//! General Stationary Observations", 1989, with blocks that do not overlap).

use super::sums::Sums;
use crate::stats::percentile_of_sorted;
use crate::workload::SplitMix64;

/// How often blocks are drawn.
pub const DRAWS: usize = 2_000;

/// Fewer blocks with halts than this give no interval.
pub const FEWEST_BLOCKS: usize = 8;

/// A figure and the interval that holds the true one in 95 of 100 repetitions.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// As measured on all blocks.
    pub value: f64,
    /// Lower end; minus infinity where there are too few blocks.
    pub low: f64,
    /// Upper end; infinity where there are too few blocks.
    pub high: f64,
}

impl Interval {
    /// The same, out to the ends of another.
    #[must_use]
    pub fn out_to(self, other: &Self) -> Self {
        Self {
            value: self.value,
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    /// Whether all of it lies below 0.
    pub fn is_below_zero(&self) -> bool {
        self.high < 0.0
    }

    /// Whether it says anything.
    pub fn is_known(&self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }
}

/// The intervals of figures of two settings, over the same blocks. `seed` draws the blocks, the same for all figures.
pub fn bootstrap<const N: usize>(
    own: &[Sums],
    other: &[Sums],
    seed: u64,
    figures: impl Fn(&Sums, &Sums) -> [f64; N],
) -> [Interval; N] {
    let values = figures(&Sums::total(own), &Sums::total(other));
    let full: Vec<(&Sums, &Sums)> = own
        .iter()
        .zip(other)
        .filter(|(own, _)| own.halts > 0)
        .collect();
    if full.len() < FEWEST_BLOCKS {
        return values.map(|value| Interval {
            value,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
        });
    }
    let mut draw = SplitMix64(seed);
    let mut drawn = [(); N].map(|()| Vec::with_capacity(DRAWS));
    for _ in 0..DRAWS {
        let (mut sum, mut others) = (Sums::default(), Sums::default());
        for _ in 0..full.len() {
            let index = usize::try_from(draw.below(full.len() as u64)).unwrap_or(0);
            let (own, other) = full[index];
            sum.add(own);
            others.add(other);
        }
        for (drawn, value) in drawn.iter_mut().zip(figures(&sum, &others)) {
            drawn.push(value);
        }
    }
    let mut intervals = values.map(|value| Interval {
        value,
        low: value,
        high: value,
    });
    for (interval, drawn) in intervals.iter_mut().zip(&mut drawn) {
        drawn.sort_by(f64::total_cmp);
        let at = |share| percentile_of_sorted(drawn, share).unwrap_or(interval.value);
        (interval.low, interval.high) = (at(0.025), at(0.975));
    }
    intervals
}
