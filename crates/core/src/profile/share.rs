//! How sure a share is.

use crate::account::sums::folds;
pub use crate::stats::Share;
use crate::stats::Z;

/// Totals of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    pub samples: u64,
    /// Their weights: ns, or events.
    pub weight: u64,
    /// Squares of their weights: how unequal these are.
    pub squares: u128,
}

folds! {
    Sum { samples, weight, squares }
}

impl Sum {
    /// One sample of so much weight.
    pub fn one(weight: u64) -> Self {
        Self {
            samples: 1,
            weight,
            squares: u128::from(weight) * u128::from(weight),
        }
    }

    /// As how many samples of equal weight these count (Kish 1965): the square of the sum over the
    /// sum of the squares.
    pub fn effective(&self) -> f64 {
        let weight = self.weight as f64;
        if self.squares == 0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let squares = self.squares as f64;
        weight * weight / squares
    }

    /// The share that a part of these is: by weight, with the interval of Wilson (1927), which holds
    /// for few samples and for shares near 0 and 1 too. `None` where there is nothing to share.
    ///
    /// It takes samples for independent of each other. Those of one long stretch are not: where a
    /// recording holds few such stretches, the truth may lie outside more often.
    pub fn share_of(&self, part: &Self) -> Option<Share> {
        if self.weight == 0 {
            return None;
        }
        let share = part.weight as f64 / self.weight as f64;
        Some(Share::wilson(share.min(1.0), self.effective()))
    }

    /// How far the sum itself may be off, of 1, in 95 of 100 recordings: samples come by chance, so
    /// that their number scatters by no more than its root.
    pub fn scatter(&self) -> f64 {
        let n = self.effective();
        if n > 0.0 { Z / n.sqrt() } else { 1.0 }
    }
}
