//! Counts by bucket, in little memory: a capture of 100,000 VMs has a dozen histograms or more for each.

use serde::{Deserialize, Serialize};

use super::{BUCKETS, SUB_BITS};

/// Up to so many values are kept as a list of their buckets, 2 bytes each. Of more there are counts for those powers of
/// two that were seen: 32 bytes for each, so that gaps from 10 us to 10 ms take less than 400.
pub(super) const FEW: usize = 32;

const PARTS: usize = 1 << SUB_BITS;

/// Which of these it is depends on the counts alone: equal counts are equal, whatever their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub(super) enum Counts {
    /// The bucket of each value, in rising order.
    Few(Vec<u16>),
    /// Counts by bucket, none beyond 32 bits.
    Many(Octaves<u32>),
    Most(Octaves<u64>),
}

/// Counts of those powers of two of which there are any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Octaves<T> {
    seen: u64,
    /// These, in rising order.
    counts: Vec<[T; PARTS]>,
}

const _: () = assert!(BUCKETS <= PARTS * u64::BITS as usize);

impl<T: Copy + Default + Into<u64>> Octaves<T> {
    fn place(&self, octave: usize) -> usize {
        (self.seen & ((1 << octave) - 1)).count_ones() as usize
    }

    #[inline]
    fn count_mut(&mut self, bucket: usize) -> &mut T {
        let octave = bucket / PARTS;
        let place = self.place(octave);
        if self.seen & (1 << octave) == 0 {
            self.insert(octave, place);
        }
        &mut self.counts[place][bucket % PARTS]
    }

    #[cold]
    fn insert(&mut self, octave: usize, place: usize) {
        self.seen |= 1 << octave;
        self.counts.reserve_exact(1);
        self.counts.insert(place, [T::default(); PARTS]);
    }

    /// The buckets used, in rising order, with their counts.
    fn used(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        let octaves = 0..u64::BITS as usize;
        let seen = octaves.filter(|octave| self.seen & (1 << octave) != 0);
        seen.flat_map(|octave| {
            let counts = self.counts[self.place(octave)].iter().enumerate();
            counts.map(move |(part, count)| (octave * PARTS + part, (*count).into()))
        })
        .filter(|(_, count)| *count > 0)
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl From<Vec<u64>> for Counts {
    fn from(by_bucket: Vec<u64>) -> Self {
        let mut counts = Self::default();
        for (bucket, count) in by_bucket.into_iter().enumerate() {
            if count > 0 {
                counts.add(bucket, count);
            }
        }
        counts
    }
}

impl From<Counts> for Vec<u64> {
    fn from(counts: Counts) -> Self {
        counts.by_bucket()
    }
}

impl Counts {
    /// Adds to a bucket; those above the last count as the last.
    #[inline]
    pub(super) fn add(&mut self, bucket: usize, count: u64) {
        let bucket = bucket.min(BUCKETS - 1);
        if let Self::Many(counts) = self {
            let sum = counts.count_mut(bucket);
            let more = u32::try_from(count).ok();
            if let Some(more) = more.and_then(|count| sum.checked_add(count)) {
                *sum = more;
                return;
            }
        }
        self.add_rarely(bucket, count);
    }

    #[inline(never)]
    fn add_rarely(&mut self, bucket: usize, count: u64) {
        match self {
            Self::Few(buckets) => {
                let room = FEW - buckets.len();
                let few = usize::try_from(count).ok().filter(|count| *count <= room);
                if let (Some(count), Ok(bucket)) = (few, u16::try_from(bucket)) {
                    let place = buckets.partition_point(|other| *other <= bucket);
                    buckets.splice(place..place, std::iter::repeat_n(bucket, count));
                    return;
                }
                let mut many = Octaves::default();
                for (bucket, count) in self.used() {
                    *many.count_mut(bucket) = u32::try_from(count).unwrap_or(u32::MAX);
                }
                *self = Self::Many(many);
                self.add(bucket, count);
            }
            Self::Many(_) => {
                let mut most = Octaves::default();
                for (bucket, count) in self.used() {
                    *most.count_mut(bucket) = count;
                }
                *self = Self::Most(most);
                self.add_rarely(bucket, count);
            }
            Self::Most(counts) => {
                let sum = counts.count_mut(bucket);
                *sum = sum.saturating_add(count);
            }
        }
    }

    /// The buckets used, in rising order, with their counts.
    pub(super) fn used(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        let few = match self {
            Self::Few(buckets) => &buckets[..],
            _ => &[],
        };
        let few = few.chunk_by(|one, next| one == next);
        let few = few.map(|run| (usize::from(run[0]), run.len() as u64));
        let many = match self {
            Self::Many(counts) => Some(counts.used()),
            _ => None,
        };
        let most = match self {
            Self::Most(counts) => Some(counts.used()),
            _ => None,
        };
        few.chain(many.into_iter().flatten())
            .chain(most.into_iter().flatten())
    }

    /// A count for each bucket up to the highest used.
    pub(super) fn by_bucket(&self) -> Vec<u64> {
        let last = self.used().next_back();
        let mut counts = vec![0; last.map_or(0, |(bucket, _)| bucket + 1)];
        for (bucket, count) in self.used() {
            counts[bucket] = count;
        }
        counts
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::workload::SplitMix64;

    fn of(parts: &[(usize, u64)]) -> Counts {
        let mut counts = Counts::default();
        for &(bucket, count) in parts {
            counts.add(bucket, count);
        }
        counts
    }

    /// Against an array of counts, around the number of values from which it is one.
    #[test]
    fn few_and_many_count_alike_in_any_order() {
        let mut random = SplitMix64(7);
        let mut draw = |below: u64| usize::try_from(random.below(below)).unwrap();
        for values in (0..8).chain(FEW - 3..FEW + 4) {
            let mut plain = vec![0; BUCKETS];
            let mut parts: Vec<(usize, u64)> = Vec::new();
            for _ in 0..values {
                let bucket = draw(BUCKETS as u64);
                plain[bucket] += 1;
                parts.push((bucket, 1));
            }
            let counts = of(&parts);
            assert_eq!(matches!(counts, Counts::Few(_)), values <= FEW);
            parts.reverse();
            assert_eq!(of(&parts), counts);
            let runs: Vec<(usize, u64)> = counts.used().collect();
            assert_eq!(of(&runs), counts, "runs of equal buckets at once");
            let last = plain.iter().rposition(|&n| n > 0);
            assert_eq!(counts.by_bucket(), plain[..last.map_or(0, |last| last + 1)]);
        }
    }

    #[test]
    fn a_count_that_fits_in_no_list_is_many_at_once() {
        let counts = of(&[(3, u64::MAX), (3, 1), (BUCKETS + 9, 2)]);
        let rows: Vec<(usize, u64)> = counts.used().collect();
        assert_eq!(rows, [(3, u64::MAX), (BUCKETS - 1, 2)]);
        assert_eq!(of(&[(5, FEW as u64)]), Counts::Few(vec![5; FEW]));
    }
}
