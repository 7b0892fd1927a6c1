//! Figures of a block, which are compared.

use serde::{Deserialize, Serialize};

use crate::recording::Side;
use crate::replay::{Cost, Outcome};

crate::names! {
    /// A figure of a block.
    ///
    /// In the order in which they are printed.
    pub enum Figure {
        /// Cost of a halt at the goal's weight of latency, in nanoseconds of CPU. The verdict is about this.
        Cost = "cost",
        /// Polling, in % of a CPU for all vCPUs together.
        PollCpu = "poll-cpu",
        /// Mean wake-up latency over all halts, in nanoseconds; 0 for a halt that did not wait.
        LatencyMean = "latency-mean",
        /// Its median.
        LatencyP50 = "latency-p50",
        /// Its 99th percentile.
        LatencyP99 = "latency-p99",
        /// Halts a second, of all vCPUs together.
        Halts = "halts",
        /// Polls that ended in a wake, in % of the halts.
        SuccessfulPolls = "successful-polls",
        /// Blocks, in % of the halts; in a guest those that entered HLT.
        Blocks = "blocks",
        /// Exits on HLT for each halt, in a guest.
        HltExits = "hlt-exits",
        /// IPIs for each halt by which another CPU of the guest ended it.
        Ipis = "ipis",
        /// Polls for each halt that another CPU of the guest ended without an IPI.
        IpisSpared = "ipis-spared",
        /// Context switches of all CPUs for each halt, in a guest.
        ContextSwitches = "context-switches",
        /// CPU time of the threads that run vCPUs, in % of a CPU.
        VcpuCpu = "vcpu-cpu",
        /// CPUs of the host awake (C0 residency), in %.
        Awake = "awake",
        /// Cycles of all CPUs a second, as their PMUs count them.
        Cycles = "cycles",
        /// Power drawn by the CPU packages, in watts.
        Power = "power",
        /// The command's own figure.
        Metric = "metric",
    }
}

impl Figure {
    /// Those that a replay predicts.
    pub const PREDICTED: [Self; 11] = [
        Self::Cost,
        Self::PollCpu,
        Self::LatencyMean,
        Self::LatencyP50,
        Self::LatencyP99,
        Self::Halts,
        Self::SuccessfulPolls,
        Self::Blocks,
        Self::HltExits,
        Self::Ipis,
        Self::IpisSpared,
    ];

    pub fn is_of(self, side: Side) -> bool {
        match self {
            Self::HltExits | Self::Ipis | Self::IpisSpared | Self::ContextSwitches => {
                !side.is_host()
            }
            Self::VcpuCpu => side.is_host(),
            _ => true,
        }
    }

    pub fn unit(self) -> Unit {
        match self {
            Self::Cost | Self::LatencyMean | Self::LatencyP50 | Self::LatencyP99 => Unit::Nanos,
            Self::PollCpu | Self::SuccessfulPolls | Self::Blocks | Self::VcpuCpu | Self::Awake => {
                Unit::Percent
            }
            Self::HltExits | Self::Ipis | Self::IpisSpared | Self::ContextSwitches => Unit::PerHalt,
            Self::Halts | Self::Cycles => Unit::PerSecond,
            Self::Power => Unit::Watts,
            Self::Metric => Unit::Plain,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Nanos,
    /// Hundredths of a whole.
    Percent,
    PerSecond,
    PerHalt,
    Watts,
    /// Whatever the command counts in.
    Plain,
}

/// The figures of one block. What could not be read is `None`, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures([Option<f64>; Figure::ALL.len()]);

impl Figures {
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.0[figure as usize]
    }

    /// The same with another value of a figure; one that is no number is none.
    #[must_use]
    pub fn with(mut self, figure: Figure, value: Option<f64>) -> Self {
        self.0[figure as usize] = value.filter(|value| value.is_finite());
        self
    }

    /// Those that follow from what came of the halts of `vcpus` vCPUs. Polling and cost are `None` where
    /// the time polled was not recorded for any of the halts.
    pub fn of(outcome: &Outcome, vcpus: u64, cost: &Cost) -> Self {
        if outcome.halts == 0 {
            return Self::default();
        }
        let halts = outcome.halts as f64;
        let known = |value: f64| outcome.is_poll_known().then_some(value);
        // Each vCPU was seen for its own time; together they were for about the mean of these.
        let wall_ns = outcome.span_ns as f64 / vcpus.max(1) as f64;
        let percentile = |p| outcome.latency.percentile(p).map(|ns| ns as f64);
        let share = |n: u64| 100.0 * n as f64 / halts;
        Self::default()
            .with(Figure::Cost, known(outcome.cost_ns(cost) / halts))
            .with(
                Figure::PollCpu,
                known(100.0 * outcome.poll_ns as f64 / wall_ns),
            )
            .with(Figure::LatencyMean, Some(outcome.latency_ns as f64 / halts))
            .with(Figure::LatencyP50, percentile(0.5))
            .with(Figure::LatencyP99, percentile(0.99))
            .with(Figure::Halts, Some(halts / (wall_ns / 1e9)))
            .with(
                Figure::SuccessfulPolls,
                known(share(outcome.successful_polls)),
            )
            .with(Figure::Blocks, Some(share(outcome.blocks)))
    }

    /// The same with what a guest's polls are for: exits and IPIs.
    #[must_use]
    pub fn with_exits_of(self, outcome: &Outcome) -> Self {
        let each = |n: u64| (outcome.halts > 0).then(|| n as f64 / outcome.halts as f64);
        self.with(Figure::HltExits, each(outcome.hlt_exits))
            .with(Figure::Ipis, each(outcome.ipis))
            .with(Figure::IpisSpared, each(outcome.ipis_spared))
    }
}
