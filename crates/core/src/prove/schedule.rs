//! Rounds, and the order of their blocks, drawn from a seed.

use serde::{Deserialize, Serialize};

use crate::workload::SplitMix64;

/// Divisor of a block: its first tenth, in which the window finds its length, does not count.
pub const WARM_UP_PART: u64 = 10;

/// Purpose of a block of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Block {
    A,
    B,
    /// Under A once more: what the host makes of settings that are the same.
    Control,
}

impl Block {
    /// All of them; each round holds each once.
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::Control];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::Control => "A again",
        }
    }

    /// Whether it is measured under B.
    pub fn is_b(self) -> bool {
        self == Self::B
    }
}

/// The orders of `rounds` rounds: each of the six orders is as likely, and no round depends on another.
pub fn draw(seed: u64, rounds: u32) -> Vec<[Block; 3]> {
    let mut random = SplitMix64(seed);
    let mut order = || {
        let mut blocks = Block::ALL;
        // Fisher and Yates: from the last to the second, swap with one of those not yet placed.
        for last in [2_u64, 1] {
            let chosen = random.below(last + 1);
            let index = |n: u64| usize::try_from(n).unwrap_or(0);
            blocks.swap(index(last), index(chosen));
        }
        blocks
    };
    (0..rounds).map(|_| order()).collect()
}
