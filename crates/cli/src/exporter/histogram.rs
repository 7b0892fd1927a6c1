//! Histograms of the core in the buckets of a metric.
//!
//! Bounds are powers of two of nanoseconds, where buckets of the core and those of KVM both end, so that nothing is
//! interpolated. A time that equals a bound to the nanosecond is counted above it.

use haltwise_core::hist::{LogHist, bucket_high};
use haltwise_document::openmetrics::Buckets;

/// Which powers of two are bounds: from, to, step.
pub(super) type Bounds = (u32, u32, u32);

/// Wake-up latencies: 1 us to 16.8 ms, each twice the one before.
pub(super) const WAKE_UPS: Bounds = (10, 24, 1);

/// Halts: 1 us to 17 s, each four times the one before.
pub(super) const HALTS: Bounds = (10, 34, 2);

pub(super) fn of(hist: &LogHist, (from, to, step): Bounds) -> Buckets {
    let mut used = hist.used().peekable();
    let mut below = 0_u64;
    let bounds = (from..=to)
        .step_by(step as usize)
        .map(|power| 1_u64 << power);
    let counted = bounds.map(|bound| {
        while let Some((_, count)) = used.next_if(|(bucket, _)| bucket_high(*bucket) < bound) {
            below = below.saturating_add(count);
        }
        (bound, below)
    });
    Buckets {
        below: counted.collect(),
        count: hist.count(),
        sum_ns: hist.sum(),
    }
}
