//! What is compared, and the sums of a block from which it follows.

use serde::Serialize;

use crate::event::{Halt, HaltCounts, WindowChange};
use crate::exit::Exits;
use crate::hist::LogHist;
pub use crate::prove::figure::Unit;
use crate::stats::Fold;

/// A figure of the halts of somebody, or of their exits of one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Halts a second.
    Halts,
    /// Halts a second in which the vCPU was scheduled out.
    Blocks,
    /// Polls that ended in a wake, in % of the polls.
    SuccessfulPolls,
    /// Polling that ended in a wake, in % of one CPU.
    PollUsefulCpu,
    /// Polling without success, in % of one CPU.
    PollWastedCpu,
    /// Polls a second that another task cut short.
    CutPolls,
    /// Calls of grow a second.
    Grows,
    /// Calls of shrink a second.
    Shrinks,
    /// Mean wake-up latency of halts that waited.
    WakeLatencyMean,
    /// Its median.
    WakeLatencyP50,
    /// Its 99th percentile.
    WakeLatencyP99,
    /// Median gap.
    GapP50,
    /// Exits of a cause, a second.
    Exits,
    /// The time that handling them took, in % of one CPU.
    ExitTime,
    /// Mean handling time.
    HandlingMean,
    /// Its 99th percentile.
    HandlingP99,
}

impl Figure {
    /// Figures of halts, in the order in which they are printed.
    pub const OF_HALTS: [Self; 12] = [
        Self::Halts,
        Self::Blocks,
        Self::SuccessfulPolls,
        Self::PollUsefulCpu,
        Self::PollWastedCpu,
        Self::CutPolls,
        Self::Grows,
        Self::Shrinks,
        Self::WakeLatencyMean,
        Self::WakeLatencyP50,
        Self::WakeLatencyP99,
        Self::GapP50,
    ];

    /// Figures of exits.
    pub const OF_EXITS: [Self; 4] = [
        Self::Exits,
        Self::ExitTime,
        Self::HandlingMean,
        Self::HandlingP99,
    ];

    /// What it is counted in.
    pub fn unit(self) -> Unit {
        match self {
            Self::Halts
            | Self::Blocks
            | Self::CutPolls
            | Self::Grows
            | Self::Shrinks
            | Self::Exits => Unit::PerSecond,
            Self::SuccessfulPolls | Self::PollUsefulCpu | Self::PollWastedCpu | Self::ExitTime => {
                Unit::Percent
            }
            _ => Unit::Nanos,
        }
    }
}

/// The halts of somebody in one block, summed up. Booked as [`crate::account::Account`] books them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Halted {
    pub span_ns: u64,
    /// Whether the recording tells of grow and shrink.
    pub tells_changes: bool,
    pub halts: u64,
    /// Halts in which the vCPU was scheduled out.
    pub waits: u64,
    /// Halts of which it is known whether they polled.
    pub poll_known: u64,
    pub polled: u64,
    /// Halts that polled and were never scheduled out.
    pub successful_polls: u64,
    /// Time polled by these.
    pub poll_success_ns: u64,
    /// Time polled by the others.
    pub poll_fail_ns: u64,
    /// Polls of which it is not known whether they were cut.
    pub cut_unknown: u64,
    pub poll_cuts: u64,
    pub grows: u64,
    pub shrinks: u64,
    /// Wake-up latency of halts that waited.
    pub wake_latency_ns: LogHist,
    /// Gaps, where known.
    pub gap_ns: LogHist,
}

impl Halted {
    pub fn halt(&mut self, halt: &Halt) {
        add(&mut self.halts, 1);
        add(&mut self.waits, u64::from(halt.waited));
        if let Some(gap) = halt.gap_ns() {
            self.gap_ns.record(gap);
        }
        if let (true, Some(latency)) = (halt.waited, halt.wake_latency_ns) {
            self.wake_latency_ns.record(latency);
        }
        let Some(poll_ns) = halt.poll_ns else { return };
        add(&mut self.poll_known, 1);
        if halt.has_polled() != Some(true) {
            return;
        }
        add(&mut self.polled, 1);
        add(&mut self.poll_cuts, u64::from(halt.is_preempted()));
        add(&mut self.cut_unknown, u64::from(halt.poll_cut.is_none()));
        if halt.waited {
            add(&mut self.poll_fail_ns, poll_ns);
        } else {
            add(&mut self.successful_polls, 1);
            add(&mut self.poll_success_ns, poll_ns);
        }
    }

    /// Adds a call of grow or shrink.
    pub fn change(&mut self, change: &WindowChange) {
        add(&mut self.grows, u64::from(change.grow));
        add(&mut self.shrinks, u64::from(!change.grow));
    }

    /// Adds what a kernel counted over an interval.
    pub fn counts(&mut self, counts: &HaltCounts) {
        add(&mut self.halts, counts.halts);
        add(&mut self.waits, counts.waited);
        let known = counts.polls_known();
        add(&mut self.poll_known, known);
        add(&mut self.polled, counts.polls());
        add(&mut self.successful_polls, counts.polls_met());
        match counts.poll_cuts {
            Some(cuts) => add(&mut self.poll_cuts, cuts),
            None => add(&mut self.cut_unknown, counts.polls()),
        }
        add(&mut self.poll_success_ns, counts.poll_success_ns.sum());
        add(&mut self.poll_fail_ns, counts.poll_fail_ns.sum());
        self.wake_latency_ns.merge(&counts.wake_latency_ns);
        self.gap_ns.merge(&counts.gap_ns);
    }

    /// A figure of halts; `None` where it is not told, or of exits.
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        let per_s = |n: u64| (self.span_ns > 0).then(|| n as f64 / (self.span_ns as f64 / 1e9));
        let percent = |ns: u64| (self.span_ns > 0).then(|| 100.0 * ns as f64 / self.span_ns as f64);
        // Without halts nothing is known of polls, but nothing was polled either.
        let polls_told = self.poll_known > 0 || self.halts == 0;
        let cuts_told = self.cut_unknown.saturating_mul(32) <= self.polled;
        let of = |hist: &LogHist, p| hist.percentile(p).map(|ns| ns as f64);
        match figure {
            Figure::Halts => per_s(self.halts),
            Figure::Blocks => per_s(self.waits),
            Figure::SuccessfulPolls => {
                let share = || 100.0 * self.successful_polls as f64 / self.polled as f64;
                (self.polled > 0).then(share)
            }
            Figure::PollUsefulCpu if polls_told => percent(self.poll_success_ns),
            Figure::PollWastedCpu if polls_told => percent(self.poll_fail_ns),
            Figure::CutPolls if polls_told && cuts_told => per_s(self.poll_cuts),
            Figure::Grows if self.tells_changes => per_s(self.grows),
            Figure::Shrinks if self.tells_changes => per_s(self.shrinks),
            Figure::WakeLatencyMean => mean(&self.wake_latency_ns),
            Figure::WakeLatencyP50 => of(&self.wake_latency_ns, 0.5),
            Figure::WakeLatencyP99 => of(&self.wake_latency_ns, 0.99),
            Figure::GapP50 => of(&self.gap_ns, 0.5),
            _ => None,
        }
    }
}

impl Fold for Halted {
    fn fold(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.span_ns, other.span_ns),
            (&mut self.halts, other.halts),
            (&mut self.waits, other.waits),
            (&mut self.poll_known, other.poll_known),
            (&mut self.polled, other.polled),
            (&mut self.successful_polls, other.successful_polls),
            (&mut self.poll_success_ns, other.poll_success_ns),
            (&mut self.poll_fail_ns, other.poll_fail_ns),
            (&mut self.cut_unknown, other.cut_unknown),
            (&mut self.poll_cuts, other.poll_cuts),
            (&mut self.grows, other.grows),
            (&mut self.shrinks, other.shrinks),
        ] {
            add(sum, more);
        }
        self.tells_changes |= other.tells_changes;
        self.wake_latency_ns.merge(&other.wake_latency_ns);
        self.gap_ns.merge(&other.gap_ns);
    }
}

/// The exits of one cause in one block, summed up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exited {
    pub span_ns: u64,
    /// Whether a guest halts by it: how long that takes says nothing of the exit.
    pub is_halt: bool,
    pub count: u64,
    /// Times, of those whose time is known.
    pub handling_ns: LogHist,
}

impl Exited {
    /// Adds what a kernel counted over an interval.
    pub fn exits(&mut self, exits: &Exits) {
        self.is_halt |= exits.cause.is_halt();
        add(&mut self.count, exits.count);
        self.handling_ns.merge(&exits.handling_ns);
    }

    /// A figure of exits; `None` where it is not told, or of halts.
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        let seconds = self.span_ns as f64 / 1e9;
        let timed = self.handling_ns.count() > 0 && !self.is_halt;
        match figure {
            Figure::Exits if self.span_ns > 0 => Some(self.count as f64 / seconds),
            // Nothing was handled, or nothing of it is timed: two things.
            Figure::ExitTime if self.span_ns > 0 && (timed || self.count == 0) => {
                Some(100.0 * self.handling_ns.sum() as f64 / self.span_ns as f64)
            }
            Figure::HandlingMean if timed => mean(&self.handling_ns),
            Figure::HandlingP99 if timed => self.handling_ns.percentile(0.99).map(|ns| ns as f64),
            _ => None,
        }
    }
}

impl Fold for Exited {
    fn fold(&mut self, other: &Self) {
        add(&mut self.span_ns, other.span_ns);
        self.is_halt |= other.is_halt;
        add(&mut self.count, other.count);
        self.handling_ns.merge(&other.handling_ns);
    }
}

fn mean(hist: &LogHist) -> Option<f64> {
    (hist.count() > 0).then(|| hist.sum() as f64 / hist.count() as f64)
}

/// Sums saturate: a hostile capture may overflow nothing.
fn add(sum: &mut u64, n: u64) {
    *sum = sum.saturating_add(n);
}
