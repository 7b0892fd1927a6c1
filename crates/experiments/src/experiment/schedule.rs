//! The drawn order of variants: each round holds each variant once, in an order of its own.

use haltwise_core::workload::SplitMix64;

/// The orders of rounds, for ever: every order of `variants` is as likely, and no round depends on
/// another.
pub fn orders(seed: u64, variants: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut random = SplitMix64(seed);
    std::iter::repeat_with(move || {
        // Fisher and Yates: from the last to the second, swap with one of those not yet placed.
        let mut order: Vec<usize> = (0..variants).collect();
        for last in (1..variants).rev() {
            let chosen = random.below(last as u64 + 1);
            order.swap(last, usize::try_from(chosen).unwrap_or(0));
        }
        order
    })
}

/// The seed of a round's loads: all variants of a round draw the same.
pub fn seed_of_round(seed: u64, round: u32) -> u64 {
    SplitMix64(seed ^ u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64()
}
