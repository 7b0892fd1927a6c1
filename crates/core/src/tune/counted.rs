//! The same question where only histograms were kept: fixed thresholds, with bounds.
//!
//! A histogram of gaps knows how many there are of each length and not in which order they came. A
//! window that adapts lives by that order, and so does the lock-out (a ceiling between gap and gap plus
//! wake-up latency never opens). A fixed threshold does not: what it costs follows from the counts, but
//! for where in its bucket each gap lay. Both ends of that are computed. Which sleeps woke slowly is not
//! known either; each is taken to wake after the mean.
//!
//! A threshold comes about by `grow` 1, `grow_start` at the ceiling and `shrink` 1, from the first halt
//! on that is shorter than the ceiling; only thresholds are offered that recorded halts fall below.

use super::advice::LEAST_GAIN;
use super::candidates::{self, LONGEST_NS, Reach, SHORTEST_NS};
use super::search::Aim;
use super::wall::Wall;
use crate::account::sums::folds;
use crate::event::HaltCounts;
use crate::hist::{KvmHist, LogHist, bucket_high, bucket_low};
use crate::kvm::Knobs;
use crate::replay::Cost;
use crate::replay::latency::{Table, class_of};
use crate::stats::{Fold, folded, total};

/// Gaps of one range, as a histogram counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    low_ns: u64,
    high_ns: u64,
    halts: u64,
}

/// Counts of some vCPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counted {
    buckets: Vec<Bucket>,
    /// Halts of which the gap is known.
    pub halts: u64,
    /// Halts of which it is not.
    pub gap_unknown: u64,
    pub blocks: u64,
    /// Polls in a thousand that another task cut short; 0 where unknown.
    pub cut_milli: u64,
    /// Time polled, where known.
    pub poll_ns: Option<u64>,
    /// Wake-up latency in all, of those where it is known.
    pub latency_ns: u64,
    /// Mean wake-up latency if all slept, in nanoseconds, where that comes from elsewhere.
    would_be_late_ns: Option<u64>,
    pub latencies: u64,
    /// The shortest halt lies at or above this, in nanoseconds.
    pub shortest_ns: Option<u64>,
    /// The time in which they happened.
    pub wall: Wall,
}

impl Counted {
    /// From what a recorder counted; `vcpus` is of how many, `span_ns` over how long.
    pub fn of_counts(rows: &[HaltCounts], vcpus: u64, span_ns: u64) -> Self {
        let sum = |of: fn(&HaltCounts) -> u64| total(rows.iter().map(of));
        let gaps = merged(rows, |row| &row.gap_ns);
        let halts_ns = merged(rows, |row| &row.halt_ns);
        let latency = merged(rows, |row| &row.wake_latency_ns);
        let buckets = gaps.used().map(|(bucket, halts)| Bucket {
            low_ns: bucket_low(bucket),
            high_ns: bucket_high(bucket),
            halts,
        });
        let halts = sum(|row| row.halts);
        let cuts = u128::from(sum(|row| row.poll_cuts.unwrap_or(0)));
        let cut_milli = cuts * 1_000 / u128::from(sum(HaltCounts::polls).max(1));
        let is_poll_known = halts == 0 || sum(HaltCounts::polls_known) > 0;
        Self {
            buckets: buckets.collect(),
            halts: gaps.count(),
            gap_unknown: halts.saturating_sub(gaps.count()),
            blocks: sum(|row| row.waited),
            cut_milli: u64::try_from(cut_milli).unwrap_or(1_000).min(1_000),
            poll_ns: is_poll_known.then(|| polled_ns(rows)),
            latency_ns: latency.sum(),
            would_be_late_ns: None,
            latencies: latency.count(),
            shortest_ns: halts_ns.used().next().map(|(bucket, _)| bucket_low(bucket)),
            wall: Wall {
                span_ns,
                halt_ns: halts_ns.sum(),
                vcpus,
            },
        }
    }

    /// From KVM's own statistics (`--mode stats`; `halt_poll_success_hist`, `halt_wait_hist`): a poll that
    /// succeeded is a gap; a halt that waited has a gap of its poll and its wait, of which only the wait
    /// is known. So it may be as much longer as the longest window that it can have polled, `window_ns`,
    /// and is shorter by its wake-up, which these statistics count as waiting. What wake-ups take must
    /// come from elsewhere.
    pub fn of_kvm(
        rows: &[HaltCounts],
        vcpus: u64,
        span_ns: u64,
        window_ns: u64,
        latencies: &Table,
    ) -> Self {
        let halts = merged(rows, |row| &row.halt_ns);
        let halt_ns = halts.sum();
        let success = KvmHist::folded(&merged(rows, |row| &row.poll_success_ns));
        let halts = KvmHist::folded(&halts);
        let mut asleep_ns = 0_u64;
        let mut counted = Self {
            halts: halts.count(),
            poll_ns: Some(polled_ns(rows)),
            wall: Wall {
                span_ns,
                halt_ns,
                vcpus,
            },
            ..Self::default()
        };
        for (bucket, (&all, &polled)) in halts.0.iter().zip(&success.0).enumerate() {
            let (low_ns, high_ns) = KvmHist::edges(bucket);
            counted.take(low_ns, high_ns, polled.min(all));
            let waited = all.saturating_sub(polled);
            let [early_ns, late_ns] = [low_ns, high_ns].map(|ns| latencies.median(class_of(ns)));
            let gap_low_ns = low_ns.saturating_sub(early_ns.max(late_ns));
            counted.take(gap_low_ns, high_ns.saturating_add(window_ns), waited);
            counted.blocks = counted.blocks.saturating_add(waited);
            let mean_ns = u64::midpoint(early_ns, late_ns);
            counted.latency_ns = counted
                .latency_ns
                .saturating_add(waited.saturating_mul(mean_ns));
            asleep_ns = asleep_ns.saturating_add(all.saturating_mul(mean_ns));
        }
        counted.latencies = counted.blocks;
        counted.would_be_late_ns = asleep_ns.checked_div(counted.halts);
        counted
    }

    fn take(&mut self, low_ns: u64, high_ns: u64, halts: u64) {
        if halts == 0 {
            return;
        }
        self.buckets.push(Bucket {
            low_ns,
            high_ns,
            halts,
        });
        self.shortest_ns = self.shortest_ns.into_iter().chain([low_ns]).min();
    }

    /// Mean wake-up latency of a halt that slept, or would, in nanoseconds.
    pub fn latency_mean_ns(&self) -> Option<u64> {
        let slept = self.latency_ns.checked_div(self.latencies);
        slept.or(self.would_be_late_ns)
    }

    /// Outcome of a threshold at the least and at the most. `None` where no wake-up was seen.
    pub fn bounds(&self, threshold_ns: u64, cost: &Cost) -> Option<Bounds> {
        let block_latency_ns = self.latency_mean_ns()?;
        let mut bounds = Bounds::default();
        for bucket in &self.buckets {
            let halts = bucket.halts;
            let many = |ns: u64| halts.saturating_mul(ns);
            let won = |ns| Bound {
                milli: cost.milli(many(ns), 0, 0),
                poll_ns: many(ns),
                latency_ns: 0,
            };
            let lost = Bound {
                milli: cost.milli(many(threshold_ns), halts, many(block_latency_ns)),
                poll_ns: many(threshold_ns),
                latency_ns: many(block_latency_ns),
            };
            let (low, high) = match () {
                () if threshold_ns == 0 || bucket.low_ns > threshold_ns => (lost, lost),
                () if bucket.high_ns <= threshold_ns => (
                    won(bucket.low_ns),
                    self.with_cuts(&won(bucket.high_ns), &lost),
                ),
                () => (won(bucket.low_ns), lost),
            };
            bounds.low.fold(&low);
            bounds.high.fold(&high);
        }
        Some(bounds)
    }

    /// The worse end of polls that would succeed: as many are cut as were when counted, and then the
    /// halt polls and sleeps as one that is lost.
    fn with_cuts(&self, won: &Bound, lost: &Bound) -> Bound {
        let cut = u128::from(self.cut_milli);
        let mix = |won: u128, lost: u128| {
            let worse = lost.saturating_sub(won).saturating_mul(cut) / 1_000;
            won.saturating_add(worse)
        };
        let ns =
            |won: u64, lost: u64| u64::try_from(mix(won.into(), lost.into())).unwrap_or(u64::MAX);
        Bound {
            milli: mix(won.milli, lost.milli),
            poll_ns: ns(won.poll_ns, lost.poll_ns),
            latency_ns: ns(won.latency_ns, lost.latency_ns),
        }
    }

    /// Cost of the setting in force, as counted: at the least, and exactly where the time polled is known.
    pub fn in_force(&self, cost: &Cost) -> InForce {
        let low = cost.milli(0, self.blocks, self.latency_ns);
        let known = self
            .poll_ns
            .map(|ns| cost.milli(ns, self.blocks, self.latency_ns));
        InForce {
            least_milli: known.unwrap_or(low),
            known_milli: known,
        }
    }

    /// The threshold whose worst case is best, among those that can come about; 0 does not poll.
    pub fn best(&self, cost: &Cost, max_poll_cpu_percent: Option<f64>) -> Option<(u64, Bounds)> {
        let shortest_ns = self.shortest_ns.unwrap_or(u64::MAX);
        let edges = self.buckets.iter().map(|bucket| bucket.high_ns);
        let lengths = u64::from(SHORTEST_NS)..=u64::from(LONGEST_NS);
        let can_open = |ns: &u64| *ns > shortest_ns && lengths.contains(ns);
        let off = self.bounds(0, cost)?;
        // Not worth it unless it saves something even at its worst.
        let most = off.high.milli as f64 * (1.0 - LEAST_GAIN);
        let within = |bounds: &Bounds| {
            max_poll_cpu_percent.is_none_or(|max| self.percent(bounds.high.poll_ns) <= max)
        };
        edges
            .filter(can_open)
            .filter_map(|ns| Some((ns, self.bounds(ns, cost)?)))
            .filter(|(_, bounds)| within(bounds) && bounds.high.milli as f64 <= most)
            .min_by_key(|(ns, bounds)| (bounds.high.milli, *ns))
            .or(Some((0, off)))
    }

    /// A time of the vCPUs in % of one CPU, never more than 100 for each: where in its bucket each gap lay is
    /// not known, so a bound alone may be more.
    pub fn percent(&self, ns: u64) -> f64 {
        let percent = 100.0 * ns as f64 / self.wall.span_ns.max(1) as f64;
        percent.min(100.0 * self.wall.vcpus.max(1) as f64)
    }
}

fn merged(rows: &[HaltCounts], of: fn(&HaltCounts) -> &LogHist) -> LogHist {
    folded(rows.iter().map(of))
}

fn polled_ns(rows: &[HaltCounts]) -> u64 {
    let hists = rows
        .iter()
        .flat_map(|row| [&row.poll_success_ns, &row.poll_fail_ns]);
    total(hists.map(LogHist::sum))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bound {
    /// Cost in thousandths of a nanosecond of CPU.
    pub milli: u128,
    pub poll_ns: u64,
    /// Wake-up latency in all, in nanoseconds.
    pub latency_ns: u64,
}

folds! {
    Bound { milli, poll_ns, latency_ns }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// If each gap lay where it costs least.
    pub low: Bound,
    /// If each lay where it costs most.
    pub high: Bound,
}

/// Cost of the setting in force, in thousandths of a nanosecond of CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InForce {
    pub least_milli: u128,
    /// Exactly, where it is known how long halts polled.
    pub known_milli: Option<u128>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CountedAdvice {
    /// The threshold in nanoseconds; 0 does not poll.
    pub threshold_ns: u64,
    /// The parameters that make it.
    pub knobs: Knobs,
    pub bounds: Bounds,
    pub in_force: InForce,
    /// Better even in the worst case, or beyond what polling may take as things are.
    pub changes: bool,
    /// Better, and not were what was calibrated as late as [`super::doubt`] asks, or a block's CPU at an end of
    /// the calibration's interval.
    pub hangs_on_calibration: bool,
}

/// Recommends a threshold for an aim. `otherwise` are the same counts with doubtful wake-ups as early and as late as they
/// may be ([`super::doubt`]). `None` where no wake-up was seen, or nothing stays within the limit.
pub fn advise(
    counted: &Counted,
    otherwise: &[Counted],
    reach: Reach,
    knobs: &Knobs,
    aim: &Aim,
) -> Option<CountedAdvice> {
    let (cost, most) = (&aim.cost, aim.limit_percent());
    let (threshold_ns, bounds) = counted.best(cost, Some(most))?;
    let in_force = counted.in_force(cost);
    let polls = counted.poll_ns.map(|ns| counted.percent(ns));
    let is_over = polls.is_some_and(|polls| polls > most);
    let worth_it = bounds.high.milli as f64 <= in_force.least_milli as f64 * (1.0 - LEAST_GAIN);
    let gains = |counted: &Counted, cost: &Cost| {
        let bounds = counted.bounds(threshold_ns, cost);
        bounds.is_some_and(|bounds| bounds.high.milli < counted.in_force(cost).least_milli)
    };
    let outlives =
        otherwise.iter().all(|it| gains(it, cost)) && aim.ends().all(|end| gains(counted, &end));
    let hangs_on_calibration = worth_it && !outlives;
    let ceiling_ns = u32::try_from(threshold_ns).unwrap_or(LONGEST_NS);
    let threshold = candidates::threshold(reach, knobs, ceiling_ns);
    Some(CountedAdvice {
        threshold_ns,
        knobs: threshold,
        bounds,
        in_force,
        changes: ((worth_it && !hangs_on_calibration) || is_over)
            && !reach.is_same(&threshold, knobs),
        hangs_on_calibration,
    })
}

#[cfg(test)]
mod test;
