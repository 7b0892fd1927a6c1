//! The halt account: where halted time goes, of one vCPU, one VM or a whole host.
//!
//! Facts go in one by one, in any order and in batches of any size; the account that comes out is
//! the same. Accounts of parts add up to the account of the whole, so a VM is the sum of its vCPUs
//! and a host the sum of its VMs. An account is as large after ten thousand million halts as after
//! ten. It draws no chart and prints nothing: that is the rim's.

pub mod idle;
pub mod ledger;
pub mod parts;
pub mod seen;
pub mod series;
pub(crate) mod sums;
pub mod within;
pub mod worth;

use serde::Serialize;

use crate::event::{CeilingSource, Halt, HaltCounts, WakeSource, WindowChange};
use crate::hist::LogHist;
use crate::stats::{Fold, Share, total};
use parts::Parts;
use seen::{Bounded, Newest, Span};
use series::Series;
use sums::folds;
use within::Edges;

/// Different ceilings of one account that are told apart; larger ones are lumped together.
pub const CEILINGS: usize = 16;

/// Sums over the halts of a vCPU, a VM or the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    pub halts: u64,
    /// Halts in which the vCPU was really scheduled out. Each is two context switches.
    pub waits: u64,
    /// Halts whose wake-up KVM did not count as valid.
    pub invalid: u64,
    /// Halts of which it is known whether they polled.
    pub poll_known: u64,
    pub polled: u64,
    /// Halts that polled and were never scheduled out (KVM's `halt_successful_poll`).
    pub successful_polls: u64,
    /// Polls of which it is not known whether they were cut.
    pub cut_unknown: u64,
    /// The polls among `cut_unknown` whose duration was not counted: each counts with its longest possible duration.
    pub poll_bounds: u64,
    /// Polls that stopped because another task wanted the CPU.
    pub poll_cuts: u64,
    pub parts: Parts,
    /// Halts by [`WakeSource`], in the order of `WakeSource::ALL`.
    pub wakes: [u64; 5],
    pub halt_ns: LogHist,
    /// Gaps, where the wake-up latency is known.
    pub gap_ns: LogHist,
    /// Wake-up latency of halts that waited.
    pub wake_latency_ns: LogHist,
    pub poll_success_ns: LogHist,
    /// Time polled by polls that ended in a wait.
    pub poll_fail_ns: LogHist,
    pub window_ns: LogHist,
    pub unknown: Unknown,
    pub series: Series,
    /// The window that the newest halt left behind. Of several vCPUs: of the one that halted last.
    pub window_now: Newest<u32>,
    /// Ceilings in force, with the halts that each governed.
    pub ceilings: Bounded<Ceiling, Span, CEILINGS>,
    pub grows: u64,
    pub shrinks: u64,
    /// First start and last end of everything seen here.
    pub span: Span,
    /// First and last time at which the kernel told of a halt; of counts, from when to when it counted.
    pub told: Span,
    edges: Edges,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ceiling {
    pub ns: u32,
    pub source: CeilingSource,
}

/// How many halts lack which field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Unknown {
    pub window_ns: u64,
    pub ceiling_ns: u64,
    pub poll_ns: u64,
    /// The wake-up latency of a halt that waited.
    pub wake_latency_ns: u64,
    pub wake: u64,
}

impl Account {
    /// Before the first halt, one that does not keep what happened over time.
    pub(crate) fn in_outline() -> Self {
        Self {
            series: Series::outline(),
            ..Self::default()
        }
    }

    pub fn halt(&mut self, halt: &Halt) {
        count(&mut self.halts, true);
        count(&mut self.waits, halt.waited);
        count(&mut self.invalid, !halt.valid);
        let parts = Parts::of_halt(halt);
        self.parts.fold(&parts);
        self.edges.fold(&Edges::of(halt, parts));
        self.told.fold(&Span::of_one(halt.end_ns()));
        count(&mut self.wakes[usize::from(halt.wake.code())], true);
        self.halt_ns.record(halt.halt_ns);
        if let Some(gap) = halt.gap_ns() {
            self.gap_ns.record(gap);
        }
        if let (true, Some(latency)) = (halt.waited, halt.wake_latency_ns) {
            self.wake_latency_ns.record(latency);
        }
        self.poll(halt);
        self.unknown.halt(halt);
        self.window_of(halt);
        self.span.fold(&Span::between(halt.start_ns, halt.end_ns()));
    }

    fn poll(&mut self, halt: &Halt) {
        let Some(poll_ns) = halt.poll_ns else { return };
        count(&mut self.poll_known, true);
        if halt.has_polled() != Some(true) {
            return;
        }
        count(&mut self.polled, true);
        count(&mut self.poll_cuts, halt.is_preempted());
        count(&mut self.cut_unknown, halt.poll_cut.is_none());
        count(
            &mut self.poll_bounds,
            halt.poll_cut.is_none() && halt.polled.is_none(),
        );
        if halt.waited {
            self.poll_fail_ns.record(poll_ns);
        } else {
            count(&mut self.successful_polls, true);
            self.poll_success_ns.record(poll_ns);
        }
    }

    fn window_of(&mut self, halt: &Halt) {
        let end_ns = halt.end_ns();
        self.series.add(end_ns, |slot| slot.halt(halt));
        if let Some(window) = halt.window_ns {
            self.window_ns.record(window.into());
        }
        if let Some(window) = halt.window_next_ns.or(halt.window_ns) {
            self.window_now.see(end_ns, window);
        }
        if let Some(ns) = halt.ceiling_ns {
            let source = halt.ceiling_source;
            let governed = Span::of_one(end_ns);
            self.ceilings.add(Ceiling { ns, source }, &governed);
        }
    }

    pub fn window(&mut self, change: &WindowChange) {
        count(&mut self.grows, change.grow);
        count(&mut self.shrinks, !change.grow);
        self.series.add(change.time_ns, |slot| slot.window(change));
        self.window_now.see(change.time_ns, change.new_ns);
    }

    /// Adds the counts of one interval (`--mode counts`). Windows and ceilings stay unknown.
    pub fn counts(&mut self, counts: &HaltCounts) {
        self.halts.fold(&counts.halts);
        self.waits.fold(&counts.waited);
        let known = counts.polls_known();
        self.poll_known.fold(&known);
        self.polled.fold(&counts.polls());
        self.successful_polls.fold(&counts.polls_met());
        match counts.poll_cuts {
            Some(cuts) => self.poll_cuts.fold(&cuts),
            None => self.cut_unknown.fold(&counts.polls()),
        }
        self.parts.fold(&Parts::of_counts(counts));
        self.wakes.fold(&counts.wakes);
        self.halt_ns.merge(&counts.halt_ns);
        self.gap_ns.merge(&counts.gap_ns);
        self.wake_latency_ns.merge(&counts.wake_latency_ns);
        self.poll_success_ns.merge(&counts.poll_success_ns);
        self.poll_fail_ns.merge(&counts.poll_fail_ns);
        self.unknown.counts(counts);
        (self.series).add(counts.time_ns, |slot| slot.counts(counts));
        let start = counts.time_ns.saturating_sub(counts.interval_ns);
        self.span.fold(&Span::between(start, counts.time_ns));
        self.told.fold(&Span::between(start, counts.time_ns));
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Halted time in all, KVM's own measure.
    pub fn halted_ns(&self) -> u64 {
        self.halt_ns.sum()
    }

    /// Halts that did not poll, where that is known.
    pub fn not_polled(&self) -> Option<u64> {
        (self.poll_known > 0).then(|| self.poll_known.saturating_sub(self.polled))
    }

    /// Polls that ended in a wait; `None` where those of more than a few halts are not known, or all halts that
    /// tell are halts that did not wait.
    pub fn failed_polls(&self) -> Option<u64> {
        let told = matches!(self.poll_bound(), PollBound::Exact | PollBound::AtMost);
        told.then(|| self.polled.saturating_sub(self.successful_polls))
    }

    /// The share of polls that ended because another task wanted the CPU; `None` where that is not
    /// known, or of too few polls to tell.
    pub fn preempted(&self) -> Option<Share> {
        self.poll_cuts()
            .and_then(|cuts| Share::of(cuts, self.polled))
    }

    /// Polls that stopped because another task wanted the CPU, if that is known of all but a few polls.
    pub fn poll_cuts(&self) -> Option<u64> {
        is_few(self.cut_unknown, self.polled).then_some(self.poll_cuts)
    }

    /// How the sums of polls bound the true sums, where some halts do not tell how long they polled.
    pub fn poll_bound(&self) -> PollBound {
        let all_told = is_few(self.unknown.poll_ns, self.halts);
        let all_counted = is_few(self.poll_bounds, self.polled);
        match (all_told, all_counted) {
            (true, true) => PollBound::Exact,
            (false, true) => PollBound::AtLeast,
            (true, false) => PollBound::AtMost,
            (false, false) => PollBound::About,
        }
    }

    /// Time polled, in the two parts of it, by vCPUs that had so much time together: never more than that.
    pub fn polled_of(&self, available_ns: u64) -> Parts {
        let polled = Parts {
            poll_success_ns: self.poll_success_ns.sum(),
            poll_fail_ns: self.poll_fail_ns.sum(),
            ..Parts::default()
        };
        polled.at_most(available_ns)
    }

    /// CPU time burnt by polling; `None` if no halt says how long it polled.
    pub fn poll_ns(&self) -> Option<u64> {
        let sum = self
            .poll_success_ns
            .sum()
            .saturating_add(self.poll_fail_ns.sum());
        (self.poll_known > 0).then_some(sum)
    }
}

crate::names! {
    /// How a sum of polls bounds the true sum.
    pub enum PollBound {
        /// All polls, or all but a few, were recorded.
        Exact = "exact",
        /// For some halts, it is not known whether and how long they polled.
        AtLeast = "at least",
        /// Polls whose end was not recorded count with their whole window.
        AtMost = "at most",
        About = "about",
    }
}

/// Whether so few of all that figures hold without them: those before a vCPU's first call of grow or shrink, say.
fn is_few(part: u64, all: u64) -> bool {
    part.saturating_mul(32) <= all
}

impl Unknown {
    fn halt(&mut self, halt: &Halt) {
        count(&mut self.window_ns, halt.window_ns.is_none());
        count(&mut self.ceiling_ns, halt.ceiling_ns.is_none());
        count(&mut self.poll_ns, halt.poll_ns.is_none());
        let no_latency = halt.waited && halt.wake_latency_ns.is_none();
        count(&mut self.wake_latency_ns, no_latency);
        count(&mut self.wake, halt.wake == WakeSource::Unknown);
    }

    fn counts(&mut self, counts: &HaltCounts) {
        self.window_ns.fold(&counts.halts);
        self.ceiling_ns.fold(&counts.halts);
        let poll_unknown = counts.halts.saturating_sub(counts.polls_known());
        self.poll_ns.fold(&poll_unknown);
        let with_latency = counts.wake_latency_ns.count();
        self.wake_latency_ns
            .fold(&counts.waited.saturating_sub(with_latency));
        let told = total(&counts.wakes[..4]);
        self.wake.fold(&counts.halts.saturating_sub(told));
    }
}

fn count(sum: &mut u64, yes: bool) {
    sum.fold(&u64::from(yes));
}

folds! {
    Unknown { window_ns, ceiling_ns, poll_ns, wake_latency_ns, wake }
    Account {
        halts, waits, invalid, poll_known, polled, successful_polls, cut_unknown, poll_bounds, poll_cuts, parts, wakes,
        halt_ns, gap_ns, wake_latency_ns, poll_success_ns, poll_fail_ns, window_ns, unknown, series, window_now, ceilings,
        grows, shrinks, span, told, edges,
    }
}

/// Percentiles of a histogram, each known to 12.5 %; the largest exactly, unless the kernel counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spread {
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub max: u64,
}

impl Spread {
    /// Spread of a histogram; `None` if the histogram is empty.
    pub fn of(hist: &LogHist) -> Option<Self> {
        Some(Self {
            p50: hist.percentile(0.50)?,
            p95: hist.percentile(0.95)?,
            p99: hist.percentile(0.99)?,
            max: hist.max(),
        })
    }
}

#[cfg(test)]
mod test;
