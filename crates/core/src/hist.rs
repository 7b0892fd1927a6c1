//! Histograms of nanoseconds: KVM's own, and ours, which is eight times finer.
//!
//! [`KvmHist`] is the kernel's: 32 buckets by powers of two (`kvm_stats_log_hist_update` in
//! `include/linux/kvm_host.h`). [`LogHist`] splits every power of two into eight equal parts,
//! so that a value is known to 12.5 %; the collector's BPF programs fill the same buckets.

mod counts;

use serde::{Deserialize, Serialize};

use crate::stats::total;
use counts::Counts;

/// Parts into which [`LogHist`] splits each power of two, as a power of two itself.
pub const SUB_BITS: u32 = 3;

/// Buckets of a [`LogHist`] that covers all of `u64`.
pub const BUCKETS: usize = bucket_of(u64::MAX) + 1;

/// Buckets kept in the kernel: up to 2^35 ns (34 s); longer values fall into the last.
pub const KERNEL_BUCKETS: usize = bucket_of((1 << 35) - 1) + 1;

/// The bucket of a value: 0..8 are exact, then eight buckets for each power of two.
///
/// Example: 1000 lies in [960, 1024), the last eighth of [512, 1024).
#[expect(clippy::cast_possible_truncation, reason = "at most 495")]
pub const fn bucket_of(value: u64) -> usize {
    if value < 1 << SUB_BITS {
        return value as usize;
    }
    let octave = value.ilog2();
    let part = (value >> (octave - SUB_BITS)) & ((1 << SUB_BITS) - 1);
    (((octave - SUB_BITS + 1) << SUB_BITS) as u64 + part) as usize
}

pub const fn bucket_low(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 1 << SUB_BITS {
        return bucket;
    }
    let octave = (bucket >> SUB_BITS) + SUB_BITS as u64 - 1;
    let part = bucket & ((1 << SUB_BITS) - 1);
    ((1 << SUB_BITS) + part) << (octave - SUB_BITS as u64)
}

pub const fn bucket_high(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS {
        u64::MAX
    } else {
        bucket_low(bucket + 1) - 1
    }
}

/// A histogram with eight buckets for each power of two.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogHist {
    /// Counts by [`bucket_of`].
    counts: Counts,
    count: u64,
    /// Their sum (saturating), where the values themselves were seen.
    sum: u64,
    /// The largest value, where the values themselves were seen.
    max: u64,
}

impl LogHist {
    /// A histogram from what a capture stored. `None` if it has more than [`BUCKETS`] counts, or
    /// if their total does not fit.
    pub fn from_parts(counts: Vec<u64>, sum: u64, max: u64) -> Option<Self> {
        if counts.len() > BUCKETS {
            return None;
        }
        let count = counts
            .iter()
            .try_fold(0_u64, |all, &n| all.checked_add(n))?;
        Some(Self {
            counts: Counts::from(counts),
            count,
            sum,
            max,
        })
    }

    pub fn record(&mut self, value: u64) {
        self.add_count(bucket_of(value), 1);
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// Adds counts that the kernel kept, with their true sum.
    pub fn add_buckets(&mut self, counts: impl IntoIterator<Item = u64>, sum: u64) {
        for (bucket, count) in counts.into_iter().enumerate() {
            if count > 0 {
                self.add_count(bucket, count);
                self.max = self.max.max(bucket_high(bucket));
            }
        }
        self.sum = self.sum.saturating_add(sum);
    }

    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in other.used() {
            self.add_count(bucket, count);
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    fn add_count(&mut self, bucket: usize, count: u64) {
        self.counts.add(bucket, count);
        self.count = self.count.saturating_add(count);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest value; the upper edge of its bucket if the kernel kept the counts.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Counts by bucket, up to the highest used.
    pub fn counts(&self) -> Vec<u64> {
        self.counts.by_bucket()
    }

    /// The buckets used, in rising order, with their counts.
    pub fn used(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        self.counts.used()
    }

    /// The value below or at which the share `p` (0 to 1) of all values lies, to 12.5 %:
    /// linear inside its bucket, never beyond the largest value.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "p is clamped to 0..=1, so ranks and values stay inside u64"
    )]
    pub fn percentile(&self, p: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((self.count as f64 * p.clamp(0.0, 1.0)).ceil() as u64).clamp(1, self.count);
        let mut below = 0_u64;
        for (bucket, count) in self.used() {
            if below.saturating_add(count) >= rank {
                let low = bucket_low(bucket);
                let width = bucket_high(bucket).min(self.max.max(low)) - low;
                let inside = width as f64 * (rank - below) as f64 / count as f64;
                return Some((low + inside as u64).min(self.max));
            }
            below = below.saturating_add(count);
        }
        Some(self.max)
    }

    /// The share (0 to 1) of all values that are at most `limit`; linear inside its bucket.
    pub fn share_up_to(&self, limit: u64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let bucket = bucket_of(limit);
        let (mut below, mut inside) = (0_u64, 0);
        for (used, count) in self.used().take_while(|(used, _)| *used <= bucket) {
            if used == bucket {
                inside = count;
            } else {
                below = below.saturating_add(count);
            }
        }
        let low = bucket_low(bucket);
        let high = bucket_high(bucket).min(self.max.max(low));
        let part = ((limit - low) as f64 + 1.0) / ((high - low) as f64 + 1.0);
        Some((below as f64 + inside as f64 * part.min(1.0)) / self.count as f64)
    }

    /// The sum of all values, of each no more than `limit`; a value counts as the middle of its bucket.
    pub fn sum_within(&self, limit: u64) -> u64 {
        self.used().fold(0, |sum: u64, (bucket, count)| {
            let low = bucket_low(bucket);
            let middle = low + (bucket_high(bucket).min(self.max.max(low)) - low) / 2;
            sum.saturating_add(count.saturating_mul(middle.min(limit)))
        })
    }

    /// Folds the eighths into powers of two, empty ones between included.
    pub fn octaves(&self) -> Vec<Octave> {
        let first = self.used().next().map_or(0, |(bucket, _)| bucket);
        let mut rows: Vec<Octave> = Vec::new();
        for (bucket, &count) in self.counts().iter().enumerate().skip(first) {
            let (low_ns, high_ns) = match bucket_low(bucket).checked_ilog2() {
                None => (0, 0),
                Some(n) => (1 << n, (1_u64 << n) | ((1_u64 << n) - 1)),
            };
            match rows.last_mut().filter(|row| row.low_ns == low_ns) {
                Some(row) => row.count = row.count.saturating_add(count),
                None => rows.push(Octave {
                    low_ns,
                    high_ns,
                    count,
                }),
            }
        }
        rows
    }
}

/// Rows of several histograms by power of two, from the first that one of them uses to the last.
pub fn together<const N: usize>(of: [&LogHist; N]) -> impl Iterator<Item = (Octave, [u64; N])> {
    let mut all = LogHist::default();
    for hist in of {
        all.merge(hist);
    }
    let each = of.map(LogHist::octaves);
    let count = |rows: &[Octave], low_ns| {
        let row = rows.iter().find(|row| row.low_ns == low_ns);
        row.map_or(0, |row| row.count)
    };
    let rows = all.octaves().into_iter();
    rows.map(move |row| (row, each.each_ref().map(|rows| count(rows, row.low_ns))))
}

/// Values of one power of two, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Octave {
    pub low_ns: u64,
    pub high_ns: u64,
    pub count: u64,
}

/// Buckets of KVM's logarithmic halt histograms (`HALT_POLL_HIST_COUNT`, `include/linux/kvm_types.h`).
pub const KVM_HIST_BUCKETS: usize = 32;

/// KVM's own histogram: bucket 0 holds 0, bucket N holds [2^(N-1), 2^N), the last all above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KvmHist(pub [u64; KVM_HIST_BUCKETS]);

impl KvmHist {
    /// The bucket that KVM puts a value in: `min(fls64(value), 31)`.
    pub fn bucket_of(value: u64) -> usize {
        let fls64 = u64::BITS - value.leading_zeros();
        (fls64 as usize).min(KVM_HIST_BUCKETS - 1)
    }

    pub fn count(&self) -> u64 {
        total(self.0)
    }

    /// The smallest and the largest value of a bucket.
    pub fn edges(bucket: usize) -> (u64, u64) {
        let high = |bucket: usize| (1_u64 << bucket) - 1;
        match bucket {
            0 => (0, 0),
            last if last + 1 >= KVM_HIST_BUCKETS => (1 << (KVM_HIST_BUCKETS - 2), u64::MAX),
            bucket => (1 << (bucket - 1), high(bucket)),
        }
    }

    /// The same in finer buckets, each power of two spread evenly over its own; `sum` is the true sum.
    /// Values above the last edge are taken to lie in the first power of two above that edge.
    pub fn spread(&self, sum: u64) -> LogHist {
        let mut counts = vec![0; bucket_of(1 << (KVM_HIST_BUCKETS - 1))];
        for (bucket, &count) in self.0.iter().enumerate() {
            let (low, high) = Self::edges(bucket);
            let first = bucket_of(low);
            let parts = bucket_of(high.min((1 << (KVM_HIST_BUCKETS - 1)) - 1)) + 1 - first;
            for (part, place) in (0..parts as u64).zip(&mut counts[first..]) {
                let parts = parts as u64;
                *place = total([*place, count / parts, u64::from(part < count % parts)]);
            }
        }
        let mut hist = LogHist::default();
        hist.add_buckets(counts, sum);
        hist
    }

    /// The histogram from which [`KvmHist::spread`] made `hist`.
    pub fn folded(hist: &LogHist) -> Self {
        let mut folded = Self::default();
        for (bucket, count) in hist.used() {
            let place = &mut folded.0[Self::bucket_of(bucket_low(bucket))];
            *place = place.saturating_add(count);
        }
        folded
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_bucket_starts_where_the_one_before_ends() {
        assert_eq!((BUCKETS, KERNEL_BUCKETS), (496, 264));
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(bucket_low(bucket)), bucket);
            assert_eq!(bucket_of(bucket_high(bucket)), bucket);
            if bucket > 0 {
                assert_eq!(bucket_high(bucket - 1) + 1, bucket_low(bucket));
            }
        }
    }

    #[test]
    fn parts_come_back_and_nonsense_does_not() {
        let mut hist = LogHist::default();
        for value in [0, 7, 1000, 1000] {
            hist.record(value);
        }
        let mut counts = hist.counts();
        counts.push(0);
        let again = LogHist::from_parts(counts, hist.sum(), hist.max());
        assert_eq!(again, Some(hist));
        assert_eq!(LogHist::from_parts(vec![0; BUCKETS + 1], 0, 0), None);
        assert_eq!(LogHist::from_parts(vec![u64::MAX, 1], 0, 0), None);
    }

    #[test]
    fn shares_up_to_a_limit() {
        let mut hist = LogHist::default();
        for value in 1..=1000 {
            hist.record(value);
        }
        for (limit, share) in [(0, 0.0), (5, 0.005), (500, 0.5), (1000, 1.0), (9999, 1.0)] {
            let got = hist.share_up_to(limit).unwrap();
            assert!((got - share).abs() < 0.01, "{limit}: {got}");
        }
        assert_eq!(LogHist::default().share_up_to(5), None);
    }

    #[test]
    fn a_kernels_histogram_spread_and_folded_is_itself() {
        let mut kvm = KvmHist::default();
        for (bucket, count) in kvm.0.iter_mut().enumerate() {
            *count = [0, 1, 3, 8, 13][bucket % 5];
        }
        let spread = kvm.spread(123);
        assert_eq!((spread.count(), spread.sum()), (kvm.count(), 123));
        assert_eq!(KvmHist::folded(&spread), kvm);
        for value in (0..64).map(|bit| 1_u64 << bit).flat_map(|v| [v - 1, v]) {
            let (low, high) = KvmHist::edges(KvmHist::bucket_of(value));
            assert!((low..=high).contains(&value), "{value}");
        }
        let mut one = KvmHist::default();
        one.0[11] = 16;
        assert_eq!(one.spread(0).percentile(0.5), Some(1535));
    }

    #[test]
    fn octaves_keep_every_count_and_the_gaps_between() {
        let mut hist = LogHist::default();
        for value in [0, 1, 3, 100, 127, 1000] {
            hist.record(value);
        }
        let rows = hist.octaves();
        let row = |low_ns| {
            let row = rows.iter().find(|row| row.low_ns == low_ns)?;
            Some((row.high_ns, row.count))
        };
        assert_eq!((rows[0].low_ns, row(0)), (0, Some((0, 1))));
        assert_eq!((row(64), row(256)), (Some((127, 2)), Some((511, 0))));
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 6);
    }

    #[test]
    fn kvm_buckets_as_the_kernel_counts_them() {
        let buckets = [0, 1, 2, 3, 4, 1 << 30, u64::MAX].map(KvmHist::bucket_of);
        assert_eq!(buckets, [0, 1, 2, 2, 3, 31, 31]);
    }
}
