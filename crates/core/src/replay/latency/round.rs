//! Turns that go round: a remainder without a division, since every halt asks for several.
//!
//! For turns and lengths of 32 bits the lower half of `turn * (2^64 / length)`, rounded up, is the
//! fraction of the round that is over, near enough to give the very remainder (Lemire, Kaser, Kurz,
//! "Faster remainder by direct computation", 2019).

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Round {
    length: u64,
    share: u64,
}

impl Round {
    pub(super) fn new(length: usize) -> Self {
        let length = length.max(1) as u64;
        Self {
            length,
            share: (u64::MAX / length).wrapping_add(1),
        }
    }

    pub(super) fn at(self, turn: u64) -> u64 {
        if (turn | self.length) >> 32 != 0 {
            return turn % self.length;
        }
        let over = self.share.wrapping_mul(turn);
        upper(u128::from(over) * u128::from(self.length))
    }
}

fn upper(product: u128) -> u64 {
    (product >> 64) as u64
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_round_is_a_remainder() {
        let mut draw = crate::workload::SplitMix64(5);
        for length in (0..2_000).chain([1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40]) {
            let round = Round::new(length);
            let whole = length.max(1) as u64;
            let some = (0..40).map(|_| draw.below(u64::MAX) >> draw.below(64));
            let ends = [0, whole - 1, whole, (1 << 32) - 1, 1 << 32, u64::MAX];
            let multiples = (1..20).flat_map(|n| [n * whole - 1, n * whole]);
            for turn in some.chain(ends).chain(multiples) {
                assert_eq!(round.at(turn), turn % whole, "{turn} of {whole}");
            }
        }
    }
}
