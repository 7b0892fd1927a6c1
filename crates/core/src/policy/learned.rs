//! `learned`: polls for the time that would have cost least over the gaps seen of late.
//!
//! Gaps fall into a histogram of eight buckets for each power of two, whose counts halve every
//! `half_life` halts (64). For each threshold the expected cost is what would have been polled, plus the
//! break-even for each halt that would have blocked; the cheapest is the window. It judges gaps, not
//! halts: the wake-up latency does not lock it out. The histogram is judged after the first halt, then
//! the second, the fourth, and so on, up to eight times in each half-life.
//!
//! **The safe range** goes from 0 to `clamp` (2) times the break-even. Its upper end bounds what a
//! wrong histogram can do: no halt costs more than `1 + clamp` blocks. Beyond twice the break-even little
//! is left to win: for exponential gaps that are worth polling at all, less than 2.5 %. Its lower end
//! is 0, where the paper's is above it: what that would bound is the ratio on short gaps that come
//! as a surprise, of which each costs one block, as under `off`; what it would cost is a poll in
//! every halt of an idle vCPU.
//!
//! Starts with no window, or the top of the range, until the first halt is over.
//! Wins on any load whose gaps do not depend on those before, mixed ones above all. Loses on loads that
//! go through phases, until the histogram has forgotten the last one. Source: thresholds by expected
//! cost, Krishnan, Long, Vitter, "Adaptive Disk Spindown via Optimal Rent-to-Buy in Probabilistic
//! Environments", 1995; the clamp, Kim, Fan, "Robust and Consistent Ski Rental with Distributional
//! Advice", 2026 (arXiv 2603.29233).

use super::spec::{Args, SpecError};
use super::{Ask, Entry, Policy, Seen, Setting};
use crate::hist::{bucket_high, bucket_low, bucket_of};

pub(super) const ENTRY: Entry = Entry {
    name: "learned",
    form: "half_life=HALTS,clamp=N, each optional",
    summary: "the threshold that would have cost least recently",
    build: |args, setting| {
        let terms = Terms::of(args)?;
        Ok(Box::new(Learned::new(terms, setting)))
    },
};

#[derive(Debug, Clone, Copy)]
struct Terms {
    /// In halts, from 1 to [`LONGEST_HALF_LIFE`].
    half_life: u32,
    /// The top of the safe range in break-evens.
    clamp: u32,
}

impl Terms {
    /// The given terms; terms that are not given have the defaults in this file's head.
    fn of(args: &mut Args<'_>) -> Result<Self, SpecError> {
        let half_life = args.whole("half_life")?.unwrap_or(64);
        if !(1..=LONGEST_HALF_LIFE).contains(&half_life) {
            return Err(args.refuse("half_life", "a number of halts from 1 to 65536"));
        }
        let clamp = args.whole("clamp")?.unwrap_or(2);
        Ok(Self { half_life, clamp })
    }
}

/// Weight of a new gap. Weights lose their fraction when they decay, so that a bucket
/// that is not hit any more ends at 0.
const NEW: u32 = 1 << 12;

/// The longest half-life. All weights together stay below 2^29 then.
const LONGEST_HALF_LIFE: u32 = 1 << 16;

/// The longest time that is distinguished from longer ones, 2.1 s. It fits in 32 bits, and weights times times in 64.
const LONGEST_NS: u64 = 1 << 31;

/// Buckets below this share of the break-even are one: there is nothing to choose between.
const FINEST: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    weight: u32,
    high_ns: u32,
    /// Length that a gap in the bucket is taken to have.
    middle_ns: u32,
}

/// A histogram that forgets, and the threshold it stands for.
///
/// A gap costs a few instructions; the judgement, some 60 buckets at the default clamp, comes once in
/// an eighth of a half-life.
#[derive(Debug, PartialEq)]
struct Learned {
    break_even_ns: u64,
    limit_ns: u64,
    /// The bucket of [`bucket_of`] that is the first here.
    lowest: usize,
    buckets: Box<[Bucket]>,
    /// Weight of all gaps, those beyond the limit too.
    total: u32,
    threshold_ns: u64,
    /// Gaps until the next judgement.
    due: u32,
    /// Gaps from one judgement to the next.
    interval: u32,
    /// Limit up to which `interval` doubles: an eighth of a half-life.
    full_interval: u32,
    /// Share of a weight that remains after a full interval, in 65,536ths.
    kept: u64,
}

impl Learned {
    /// A learner that has seen nothing.
    fn new(terms: Terms, setting: &Setting) -> Self {
        let break_even_ns = setting.break_even_ns.min(LONGEST_NS);
        let limit_ns = break_even_ns.saturating_mul(u64::from(terms.clamp));
        let limit_ns = limit_ns.min(LONGEST_NS);
        let lowest = bucket_of(break_even_ns / FINEST).min(bucket_of(limit_ns));
        let bucket = |bucket| {
            let low_ns = if bucket == lowest {
                0
            } else {
                bucket_low(bucket)
            };
            let high_ns = bucket_high(bucket).min(limit_ns);
            let short = |ns| u32::try_from(ns).unwrap_or(u32::MAX);
            Bucket {
                weight: 0,
                high_ns: short(high_ns),
                middle_ns: short(u64::midpoint(low_ns, high_ns)),
            }
        };
        let full_interval = (terms.half_life / 8).max(1);
        Self {
            break_even_ns,
            limit_ns,
            lowest,
            buckets: (lowest..=bucket_of(limit_ns)).map(bucket).collect(),
            total: 0,
            threshold_ns: setting.start.window(limit_ns),
            due: 1,
            interval: 1,
            full_interval,
            kept: kept(full_interval, terms.half_life),
        }
    }

    /// The threshold of least expected cost; the smallest, of several.
    fn cheapest(&self) -> u64 {
        let mut blocked = u64::from(self.total);
        let mut polled_ns = 0;
        let mut least = blocked * self.break_even_ns;
        let mut cheapest = 0;
        for bucket in &self.buckets {
            let weight = u64::from(bucket.weight);
            blocked -= weight;
            let high_ns = u64::from(bucket.high_ns);
            polled_ns += weight * u64::from(bucket.middle_ns);
            let cost = polled_ns + blocked * (high_ns + self.break_even_ns);
            if cost < least {
                (least, cheapest) = (cost, high_ns);
            }
        }
        cheapest
    }

    fn forget(&mut self) {
        let left = |weight: u32| {
            let left = (u64::from(weight) * self.kept) >> 16;
            u32::try_from(left).unwrap_or(weight)
        };
        let beyond = self
            .buckets
            .iter()
            .fold(self.total, |beyond, bucket| beyond - bucket.weight);
        self.total = left(beyond);
        for bucket in &mut self.buckets {
            bucket.weight = left(bucket.weight);
            self.total += bucket.weight;
        }
    }
}

impl Policy for Learned {
    fn window(&mut self, _: &Ask) -> u64 {
        self.threshold_ns
    }

    fn learn(&mut self, seen: &Seen) {
        let gap_ns = seen.gap_ns();
        self.total += NEW;
        if gap_ns <= self.limit_ns {
            let index = bucket_of(gap_ns).saturating_sub(self.lowest);
            self.buckets[index].weight += NEW;
        }
        self.due -= 1;
        if self.due == 0 {
            self.threshold_ns = self.cheapest();
            if self.interval == self.full_interval {
                self.forget();
            }
            self.due = self.interval;
            self.interval = self.interval.saturating_mul(2).min(self.full_interval);
        }
    }
}

/// Share that remains after `halts` halts of a weight that halves in a half-life, in 65,536ths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lies within 0 and 65,536"
)]
fn kept(halts: u32, half_life: u32) -> u64 {
    let half_lives = f64::from(halts) / f64::from(half_life);
    ((-half_lives).exp2() * 65_536.0).round() as u64
}

#[cfg(test)]
mod test;
