//! A figure of a capture, and how far it can be trusted: the jackknife over blocks of time.
//!
//! The figure is computed of everything, and again without each block in turn. That works alike for
//! rates, shares, means and percentiles: nothing need be known of the figure but how to compute it. For
//! percentiles it holds because a block is many samples (Shao and Wu, "A General Theory for Jackknife
//! Variance Estimation", 1989); for samples that hang together, because a block is a stretch of time
//! (Künsch, "The Jackknife and the Bootstrap for General Stationary Observations", 1989).
//!
//! Where neighbouring blocks still go together, with correlation `r`, so many blocks are worth
//! `(1 - r) / (1 + r)` of as many that do not (exact for a first-order autoregressive process). The
//! variance grows, and degrees of freedom go, accordingly. Blocks that alternate (`r` below 0) are given
//! no credit.

use super::bootstrap::FEWEST_BLOCKS;
use super::{Fold, Interval, student};

/// Fewer blocks than this, counted by what they are worth, say nothing: one degree of freedom, below
/// which Student's t is not defined.
pub const FEWEST_WORTH: f64 = 2.0;

/// A figure, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Value over the whole capture.
    pub value: f64,
    /// Its variance: the square of its standard error.
    pub variance: f64,
    /// Blocks that hold samples of it.
    pub blocks: usize,
    /// How many blocks that do not hang together these are worth; at most `blocks`.
    pub worth: f64,
}

impl Estimate {
    /// Whether there are enough blocks to say how sure it is.
    pub fn is_sure(&self) -> bool {
        self.blocks >= FEWEST_BLOCKS && self.worth >= FEWEST_WORTH
    }

    /// The interval that holds the true figure in 95 of 100 cases like this.
    pub fn interval(&self) -> Interval {
        if !self.is_sure() {
            return Interval::unknown(self.value);
        }
        let reach = student::quantile(0.05, self.worth - 1.0) * self.variance.sqrt();
        Interval::around(self.value, reach)
    }
}

/// The sums of a capture: of each block, of all but each block, of all.
#[derive(Debug, Clone)]
pub struct Jackknife<S> {
    blocks: Vec<S>,
    without: Vec<S>,
    total: S,
}

impl<S: Fold + Default + Clone> Jackknife<S> {
    /// Jackknife over blocks in order of time.
    pub fn new(blocks: Vec<S>) -> Self {
        // All before each block, then all after it: sums can be added and not taken away.
        let mut before = S::default();
        let mut without: Vec<S> = Vec::with_capacity(blocks.len());
        for block in &blocks {
            without.push(before.clone());
            before.fold(block);
        }
        let mut after = S::default();
        for (rest, block) in without.iter_mut().zip(&blocks).rev() {
            rest.fold(&after);
            after.fold(block);
        }
        Self {
            blocks,
            without,
            total: before,
        }
    }

    pub fn total(&self) -> &S {
        &self.total
    }

    /// A figure of it; `None` where it has none.
    pub fn estimate(&self, figure: impl Fn(&S) -> Option<f64>) -> Option<Estimate> {
        let value = figure(&self.total)?;
        let full = self.blocks.iter().zip(&self.without);
        let rests: Vec<f64> = full
            .filter(|(block, _)| figure(block).is_some())
            .filter_map(|(_, without)| figure(without))
            .collect();
        let count = rests.len() as f64;
        if rests.len() < 2 {
            return Some(Estimate {
                value,
                variance: 0.0,
                blocks: rests.len(),
                worth: count,
            });
        }
        // Tukey's pseudo-values: what each block would have said by itself.
        let own: Vec<f64> = rests
            .iter()
            .map(|rest| value + (count - 1.0) * (value - rest))
            .collect();
        let worth = count * (1.0 - together(&own)) / (1.0 + together(&own));
        let mean = own.iter().sum::<f64>() / count;
        let square: f64 = own.iter().map(|own| (own - mean).powi(2)).sum();
        Some(Estimate {
            value,
            variance: square / (count - 1.0) / worth.max(1.0),
            blocks: rests.len(),
            worth,
        })
    }
}

/// How far neighbours go together: their correlation, 0 where it is negative, less than 1.
fn together(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let both: f64 = values
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    if square > 0.0 {
        // From so few values it comes out too low (Kendall, "Note on Bias in the Estimation of
        // Autocorrelation", 1954).
        let seen = both / square;
        (seen + (1.0 + 4.0 * seen) / values.len() as f64).clamp(0.0, 0.99)
    } else {
        0.0
    }
}
