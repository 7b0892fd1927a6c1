//! The interval of paired differences, after Wilcoxon's signed ranks.
//!
//! The estimate is that of Hodges and Lehmann: the median of the means of all pairs of differences (each
//! with itself too). The interval is made of those means: with `n` differences that are symmetric about
//! the truth, the k-th smallest and the k-th largest of them hold it with a probability that depends on
//! `n` and `k` alone. No form of the noise is assumed, and a few disturbed blocks hardly move it.
//!
//! Source: Hollander, Wolfe, Chicken, "Nonparametric Statistical Methods", 3rd ed., 3.1 to 3.3.

use serde::{Deserialize, Serialize};

/// How often an interval is to hold the truth.
pub const CONFIDENCE: f64 = 0.95;

/// The typical difference, and the interval that holds the true one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RankInterval {
    /// Hodges and Lehmann's estimate.
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
    /// How often such an interval holds the truth, 0 to 1: at least 0.95 from six rounds on, less below.
    pub confidence: f64,
    /// Differences that it rests on.
    pub rounds: usize,
}

impl RankInterval {
    /// Interval of some differences; `None` without any. Takes time cubic in the number of differences: for hundreds.
    pub fn of(differences: &[f64]) -> Option<Self> {
        let means = pair_means(differences);
        let n = differences.len();
        let (cut, confidence) = cut_of(n);
        let (first, last) = (means.get(cut)?, means.get(means.len() - 1 - cut)?);
        let middle = means.len() / 2;
        let below = if means.len().is_multiple_of(2) {
            middle - 1
        } else {
            middle
        };
        Some(Self {
            estimate: f64::midpoint(means[below], means[middle]),
            low: *first,
            high: *last,
            confidence,
            rounds: n,
        })
    }

    /// Whether it lies on one side of zero.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// The largest difference, of either sign, that it does not rule out.
    pub fn reach(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }
}

/// Means of all pairs, each with itself too, sorted.
fn pair_means(differences: &[f64]) -> Vec<f64> {
    let mut means = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (index, one) in differences.iter().enumerate() {
        means.extend(
            differences[index..]
                .iter()
                .map(|other| f64::midpoint(*one, *other)),
        );
    }
    means.sort_by(f64::total_cmp);
    means
}

/// How many means to leave out at each end, and how often the rest holds the truth: the most that leave
/// 95 %, or none.
fn cut_of(n: usize) -> (usize, f64) {
    let mass = rank_sums(n);
    let mut cut = 0;
    let mut outside = mass[0];
    let mut next = outside;
    for (sum, mass) in mass.iter().enumerate().skip(1) {
        next += mass;
        if next > (1.0 - CONFIDENCE) / 2.0 {
            break;
        }
        (cut, outside) = (sum, next);
    }
    (cut, 1.0 - 2.0 * outside)
}

/// The distribution of the sum of those of the ranks 1 to n whose coin shows heads.
fn rank_sums(n: usize) -> Vec<f64> {
    let largest = n * (n + 1) / 2;
    let mut mass = vec![0.0; largest + 1];
    mass[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..=largest).rev() {
            let without = mass[sum];
            let with = if sum >= rank { mass[sum - rank] } else { 0.0 };
            mass[sum] = f64::midpoint(without, with);
        }
    }
    mass
}

#[cfg(test)]
mod test;
