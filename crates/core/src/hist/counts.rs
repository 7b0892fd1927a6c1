//! Counts by bucket, in little memory while there are few values.

use serde::{Deserialize, Serialize};

use super::BUCKETS;

/// Up to so many values are kept as a list of their buckets; of more there is a count for each bucket.
///
/// A capture of 100,000 VMs has a dozen histograms or more for each, most of them of few values. A list takes 2 bytes
/// for each value; counts take 8 for each bucket up to the highest, which is 1.5 kB for times up to 40 ms.
pub(super) const FEW: usize = 128;

/// Which of the two it is depends on the number of values alone: equal counts are equal, whatever their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub(super) enum Counts {
    /// The bucket of each value, in rising order.
    Few(Vec<u16>),
    /// Counts by bucket, as long as the highest bucket used.
    Many(Vec<u64>),
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
        match self {
            Self::Many(counts) => {
                if bucket >= counts.len() {
                    counts.resize(bucket + 1, 0);
                }
                counts[bucket] = counts[bucket].saturating_add(count);
            }
            Self::Few(_) => self.add_to_few(bucket, count),
        }
    }

    #[inline(never)]
    fn add_to_few(&mut self, bucket: usize, count: u64) {
        if let Self::Few(buckets) = self {
            let room = FEW - buckets.len();
            let count = usize::try_from(count).ok().filter(|count| *count <= room);
            if let (Some(count), Ok(bucket)) = (count, u16::try_from(bucket)) {
                let place = buckets.partition_point(|other| *other <= bucket);
                buckets.splice(place..place, std::iter::repeat_n(bucket, count));
                return;
            }
        }
        *self = Self::Many(self.by_bucket());
        self.add(bucket, count);
    }

    /// The buckets used, in rising order, with their counts.
    pub(super) fn used(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        let (few, many): (&[u16], &[u64]) = match self {
            Self::Few(buckets) => (buckets, &[]),
            Self::Many(counts) => (&[], counts),
        };
        let few = few.chunk_by(|one, next| one == next);
        let few = few.map(|run| (usize::from(run[0]), run.len() as u64));
        let many = many.iter().copied().enumerate();
        few.chain(many.filter(|(_, count)| *count > 0))
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
            let used = plain
                .iter()
                .rposition(|&n| n > 0)
                .map_or(0, |last| last + 1);
            assert_eq!(counts.by_bucket(), plain[..used]);
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
