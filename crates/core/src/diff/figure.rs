//! Compared figures, and the sums of a block from which the figures follow.

use crate::account::sums::folds;
use crate::event::{Halt, HaltCounts, WindowChange};
use crate::exit::Exits;
use crate::hist::LogHist;
pub use crate::prove::figure::Unit;
use crate::stats::Fold;

crate::names! {
    /// A figure of the halts of a VM or the host, or of its exits of one cause.
    ///
    /// In the order in which they are printed.
    pub enum Figure {
        /// Halts a second.
        Halts = "halts",
        /// Halts a second in which the vCPU was scheduled out.
        Blocks = "blocks",
        /// Polls that ended in a wake, in % of the polls.
        SuccessfulPolls = "successful-polls",
        /// Polling that ended in a wake, in % of one CPU.
        PollUsefulCpu = "poll-useful-cpu",
        /// Polling without success, in % of one CPU.
        PollWastedCpu = "poll-wasted-cpu",
        /// Polls a second that another task cut short.
        CutPolls = "cut-polls",
        /// Calls of grow a second.
        Grows = "grows",
        /// Calls of shrink a second.
        Shrinks = "shrinks",
        /// Mean wake-up latency of all halts, 0 for those that did not sleep.
        LatencyMean = "latency-mean",
        /// Mean wake-up latency of halts that waited.
        WakeLatencyMean = "wake-latency-mean",
        /// Its median.
        WakeLatencyP50 = "wake-latency-p50",
        /// Its 99th percentile.
        WakeLatencyP99 = "wake-latency-p99",
        GapP50 = "gap-p50",
        /// Exits of a cause, a second.
        Exits = "exits",
        /// The time that handling them took, in % of one CPU.
        ExitTime = "exit-time",
        HandlingMean = "handling-mean",
        /// Its 99th percentile.
        HandlingP99 = "handling-p99",
    }
}

impl Figure {
    pub const OF_HALTS: &[Self] = Self::ALL.split_at(Self::Exits as usize).0;

    pub const OF_EXITS: &[Self] = Self::ALL.split_at(Self::Exits as usize).1;

    /// Unit of the figure.
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

/// Sums over the halts of a VM or the host in one block. Booked as [`crate::account::Account`] books them.
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
        self.halts.fold(&1);
        self.waits.fold(&u64::from(halt.waited));
        if let Some(gap) = halt.gap_ns() {
            self.gap_ns.record(gap);
        }
        if let (true, Some(latency)) = (halt.waited, halt.wake_latency_ns) {
            self.wake_latency_ns.record(latency);
        }
        let Some(poll_ns) = halt.poll_ns else { return };
        self.poll_known.fold(&1);
        if halt.has_polled() != Some(true) {
            return;
        }
        self.polled.fold(&1);
        self.poll_cuts.fold(&u64::from(halt.is_preempted()));
        self.cut_unknown.fold(&u64::from(halt.poll_cut.is_none()));
        if halt.waited {
            self.poll_fail_ns.fold(&poll_ns);
        } else {
            self.successful_polls.fold(&1);
            self.poll_success_ns.fold(&poll_ns);
        }
    }

    /// Adds a call of grow or shrink.
    pub fn change(&mut self, change: &WindowChange) {
        self.grows.fold(&u64::from(change.grow));
        self.shrinks.fold(&u64::from(!change.grow));
    }

    /// Adds what a kernel counted over an interval.
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
        self.poll_success_ns.fold(&counts.poll_success_ns.sum());
        self.poll_fail_ns.fold(&counts.poll_fail_ns.sum());
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
            Figure::LatencyMean if self.halts > 0 => {
                let of_sleeps = mean(&self.wake_latency_ns);
                let of_sleeps = of_sleeps.or((self.waits == 0).then_some(0.0))?;
                Some(of_sleeps * self.waits as f64 / self.halts as f64)
            }
            Figure::WakeLatencyMean => mean(&self.wake_latency_ns),
            Figure::WakeLatencyP50 => of(&self.wake_latency_ns, 0.5),
            Figure::WakeLatencyP99 => of(&self.wake_latency_ns, 0.99),
            Figure::GapP50 => of(&self.gap_ns, 0.5),
            _ => None,
        }
    }
}

folds! {
    Halted {
        span_ns, halts, waits, poll_known, polled, successful_polls, poll_success_ns, poll_fail_ns, cut_unknown,
        poll_cuts, grows, shrinks, tells_changes, wake_latency_ns, gap_ns,
    }
    Exited { span_ns, is_halt, count, handling_ns }
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
        self.count.fold(&exits.count);
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

fn mean(hist: &LogHist) -> Option<f64> {
    (hist.count() > 0).then(|| hist.sum() as f64 / hist.count() as f64)
}
