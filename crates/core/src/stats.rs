//! Figures of samples, and how far they can be trusted.

pub mod bootstrap;
pub mod jackknife;
pub mod ranks;
pub mod student;

/// Values that can be added to values of the same type, in any order and grouping, with the same result.
pub trait Fold {
    fn fold(&mut self, other: &Self);
}

/// A sum that ends at the largest number: what is added may come from a made-up file.
impl Fold for u64 {
    #[inline]
    fn fold(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }
}

impl Fold for u128 {
    #[inline]
    fn fold(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }
}

/// All of them together.
pub fn folded<'a, S: Fold + Default + 'a>(parts: impl IntoIterator<Item = &'a S>) -> S {
    let mut all = S::default();
    for part in parts {
        all.fold(part);
    }
    all
}

/// A figure and the interval that holds the true one in 95 of 100 repetitions.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// As measured on everything.
    pub value: f64,
    /// Lower end; minus infinity where there is too little to tell.
    pub low: f64,
    /// Upper end; infinity where there is too little to tell.
    pub high: f64,
}

impl Interval {
    /// A figure of which too little is known for an interval.
    pub fn unknown(value: f64) -> Self {
        Self {
            value,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
        }
    }

    /// As far on either side.
    pub fn around(value: f64, reach: f64) -> Self {
        Self {
            value,
            low: value - reach,
            high: value + reach,
        }
    }

    /// A figure without doubt.
    pub fn exactly(value: f64) -> Self {
        Self::around(value, 0.0)
    }

    /// The figure and its ends, each as a function gives it that does not fall.
    #[must_use]
    pub fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self {
            value: of(self.value),
            low: of(self.low),
            high: of(self.high),
        }
    }

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

/// A difference that is negative in one direction is positive in the other.
impl std::ops::Neg for Interval {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            value: -self.value,
            low: -self.high,
            high: -self.low,
        }
    }
}

impl std::ops::Add for Interval {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            low: self.low + other.low,
            high: self.high + other.high,
        }
    }
}

/// A median with the interval that holds the true one in 95 of 100 repetitions.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    pub median: f64,
    /// Lower end of the 95 % interval; NaN where a file has none.
    #[serde(default = "unknown")]
    pub low: f64,
    /// Upper end of the 95 % interval; NaN where a file has none.
    #[serde(default = "unknown")]
    pub high: f64,
    #[serde(default)]
    pub samples: usize,
}

fn unknown() -> f64 {
    f64::NAN
}

/// The quantile of the normal distribution that leaves 2.5 % on either side.
pub(crate) const Z: f64 = 1.959_964;

/// A share, and between which shares the true one lies in 95 of 100 recordings.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Share {
    /// The share, of 1.
    pub share: f64,
    pub low: f64,
    pub high: f64,
}

/// Fewer events than these tell no share. The interval takes events for independent, and those of one
/// burst are not; and it is too narrow for a handful (of one event, with the property sought: 21 % and up).
pub const ENOUGH_EVENTS: u64 = 100;

impl Share {
    /// The interval of Wilson (1927), which holds for shares near 0 and 1 too, of `n` independent events.
    pub fn wilson(share: f64, n: f64) -> Self {
        let z2n = Z * Z / n;
        let middle = (share + z2n / 2.0) / (1.0 + z2n);
        let half = Z / (1.0 + z2n) * (share * (1.0 - share) / n + z2n / (4.0 * n)).sqrt();
        Self {
            share,
            low: (middle - half).clamp(0.0, share),
            high: (middle + half).clamp(share, 1.0),
        }
    }

    /// The share that some events are of all; `None` of fewer than [`ENOUGH_EVENTS`].
    pub fn of(part: u64, all: u64) -> Option<Self> {
        let share = part as f64 / all as f64;
        (all >= ENOUGH_EVENTS).then(|| Self::wilson(share.min(1.0), all as f64))
    }

    /// Whether it is at least this, whatever chance did.
    pub fn is_from(&self, least: f64) -> bool {
        self.low >= least
    }

    /// Whether it is below this, whatever chance did.
    pub fn is_below(&self, limit: f64) -> bool {
        self.high < limit
    }
}

/// The share `p` (0 to 1) of sorted samples, nearest rank. `None` of an empty slice.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "p is clamped to 0..=1, so the rank is inside the slice"
)]
pub fn percentile_of_sorted<T: Copy>(sorted: &[T], p: f64) -> Option<T> {
    let rank = (sorted.len() as f64 * p.clamp(0.0, 1.0)).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// No interval of 95 % for a median rests on fewer samples: not even the whole range is one. Nor does one of paired differences:
/// all of them lie on one side of the truth in 2 of 2^n experiments.
pub const FEWEST: usize = 6;

/// Median with its distribution-free 95 % interval: the order statistics at ranks
/// n/2 -+ 0.98 sqrt(n) (normal approximation of the binomial sign test).
///
/// Below [`FEWEST`] samples the interval is the whole range.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranks are clamped to the slice"
)]
pub fn median_estimate(samples: &[f64]) -> Option<Estimate> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (&first, &last) = (sorted.first()?, sorted.last()?);
    let n = sorted.len();
    let median = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
    if n < FEWEST {
        return Some(Estimate {
            median,
            low: first,
            high: last,
            samples: n,
        });
    }
    let half = n as f64 / 2.0;
    let reach = 0.98 * (n as f64).sqrt();
    let low_rank = ((half - reach).floor().max(1.0)) as usize;
    let high_rank = ((half + reach).ceil() + 1.0).min(n as f64) as usize;
    Some(Estimate {
        median,
        low: sorted[low_rank - 1],
        high: sorted[high_rank - 1],
        samples: n,
    })
}

/// A sum that ends at the largest number: what is added may come from a made-up file.
pub fn total(numbers: impl IntoIterator<Item = impl std::borrow::Borrow<u64>>) -> u64 {
    let numbers = numbers.into_iter();
    numbers.fold(0, |sum, n| sum.saturating_add(*n.borrow()))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_total_does_not_wrap() {
        assert_eq!(total([1, 2, 3]), 6);
        assert_eq!(total([u64::MAX, 1]), u64::MAX);
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let of = |p| percentile_of_sorted(&[10, 20, 30, 40], p);
        let found = [0.0, 0.25, 0.26, 0.5, 0.99, 1.0].map(of);
        assert_eq!(found, [10, 10, 20, 20, 40, 40].map(Some));
        assert_eq!(percentile_of_sorted::<u64>(&[], 0.5), None);
    }

    #[test]
    fn the_interval_of_a_median_closes_in_as_samples_grow() {
        let width = |n: u32| {
            let samples: Vec<f64> = (0..n).map(f64::from).collect();
            let estimate = median_estimate(&samples).unwrap();
            assert!(estimate.low <= estimate.median && estimate.median <= estimate.high);
            (estimate.high - estimate.low) / f64::from(n)
        };
        assert!(width(5) > width(20) && width(20) > width(100) && width(100) > width(10_000));
        assert_eq!(median_estimate(&[]), None);
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        let estimate = median_estimate(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert!((estimate.median - 2.5).abs() < f64::EPSILON);
    }
}
