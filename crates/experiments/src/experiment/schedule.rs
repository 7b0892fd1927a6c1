//! The drawn order of variants: each round holds each variant once, in an order of its own.

use haltwise_core::workload::SplitMix64;

/// The orders of rounds, for ever: every order of `variants` is as likely, and no round depends on
/// another.
#[derive(Debug, Clone)]
pub struct Orders {
    random: SplitMix64,
    variants: usize,
}

impl Orders {
    pub fn new(seed: u64, variants: usize) -> Self {
        Self {
            random: SplitMix64(seed),
            variants,
        }
    }
}

impl Iterator for Orders {
    type Item = Vec<usize>;

    /// Fisher and Yates: from the last to the second, swap with one of those not yet placed.
    fn next(&mut self) -> Option<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.variants).collect();
        for last in (1..self.variants).rev() {
            let chosen = self.random.below(last as u64 + 1);
            order.swap(last, usize::try_from(chosen).unwrap_or(0));
        }
        Some(order)
    }
}

/// The seed of a round's loads: all variants of a round draw the same.
pub fn seed_of_round(seed: u64, round: u32) -> u64 {
    SplitMix64(seed ^ u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64()
}
