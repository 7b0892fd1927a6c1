//! Totals of halts, replayed or recorded, in the same figures.

use super::cost::Cost;
use super::sample::Sample;
use crate::account::sums::folds;
use crate::event::{Halt, WakeSource};
use crate::hist::LogHist;
use crate::recording::Side;
use crate::stats::Fold;

/// On how many halts an assumption rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Doubts {
    /// Polling was cut short for another task, and is replayed as cut at the same length.
    pub poll_cut: u64,
    /// Their wake source is not known.
    pub wake_unknown: u64,
    /// Nothing recorded shows whether waking earlier makes such gaps longer; a timer's is taken to.
    pub arrival_assumed: u64,
    /// Their gaps were guessed: the wake-up latency was not recorded.
    pub gap_guessed: u64,
    /// They slept in the replay for a length of which no wake-up was recorded.
    pub latency_guessed: u64,
    /// They slept in the replay for a length of which fewer than [`ENOUGH`](super::latency::ENOUGH)
    /// undisturbed wake-ups were recorded.
    pub latency_thin: u64,
    /// They slept in the replay for a length whose wake-ups were measured another time, since so few were
    /// recorded.
    pub latency_calibrated: u64,
}

/// Totals of the halts of a vCPU, a VM or a host. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    pub halts: u64,
    pub polls: u64,
    /// Polls that ended in a wake.
    pub successful_polls: u64,
    /// Halts that slept: two context switches each.
    pub blocks: u64,
    /// Time polled; of a guest that sleeps on a CPU of its own (`cpu-pm`) the time for which it kept the CPU.
    pub poll_ns: u64,
    /// The part of it by polls that did not end in a wake.
    pub poll_fail_ns: u64,
    pub latency_ns: u64,
    /// Wake-up latency of every halt; 0 for those that did not sleep.
    pub latency: LogHist,
    pub halt_ns: u64,
    /// Time asleep: from the end of polling to the wake event.
    pub sleep_ns: u64,
    /// Exits on HLT: fewer than halts where the guest polled with success.
    pub hlt_exits: u64,
    /// Exits by which a timer's interrupt ended a poll in the guest. A vCPU that is halted has none: it is
    /// out already.
    pub timer_exits: u64,
    /// IPIs that the waking vCPU of the same guest had to send: none to one that polls in the guest.
    pub ipis: u64,
    /// Polls in the guest that a vCPU of the same guest ended: each spared an IPI.
    pub ipis_spared: u64,
    /// Polls in the guest that went on when another task wanted the CPU. KVM does not end them.
    pub contended_polls: u64,
    /// Time over which the halts were seen, vCPU by vCPU.
    pub span_ns: u64,
    /// The least that these halts can cost, in thousandths of a nanosecond, see [`Outcome::ratio`].
    pub clairvoyant_milli: u128,
    /// Halts whose time polled was not recorded: above, they count as not polling.
    pub poll_unknown: u64,
    /// On how many halts assumptions rest.
    pub doubts: Doubts,
}

folds! {
    Doubts {
        poll_cut, wake_unknown, arrival_assumed, gap_guessed, latency_guessed, latency_thin, latency_calibrated,
    }
    Outcome {
        halts, polls, successful_polls, blocks, poll_ns, poll_fail_ns, latency_ns, latency, halt_ns, sleep_ns, hlt_exits,
        timer_exits, ipis, ipis_spared, contended_polls, span_ns, clairvoyant_milli, poll_unknown, doubts,
    }
}

impl Outcome {
    /// The same halts as seen over `span_ns` as recorded, of which `recorded_halt_ns` were halted: the
    /// time in which the guest ran stays what it was.
    #[must_use]
    pub(super) fn over(mut self, span_ns: u64, recorded_halt_ns: u64) -> Self {
        let ran_ns = span_ns.saturating_sub(recorded_halt_ns);
        self.span_ns = ran_ns.saturating_add(self.halt_ns);
        self
    }

    /// Adds a halt as it was recorded, in a host or in a guest. `sample` is what a replay takes of it.
    pub fn add_recorded(&mut self, halt: &Halt, sample: &Sample, side: Side) {
        let poll_ns = halt.poll_ns.unwrap_or(0);
        self.poll_unknown += u64::from(halt.poll_ns.is_none());
        self.halts += 1;
        // Only halts of a guest that entered HLT exit to the host; a timer that ends their poll is an exit, too.
        let exits = halt.waited || side.is_host();
        self.hlt_exits += u64::from(exits);
        self.timer_exits += u64::from(!exits && halt.wake == WakeSource::Timer);
        let is_ipi = halt.wake == WakeSource::Ipi;
        self.ipis += u64::from(exits && is_ipi);
        self.ipis_spared += u64::from(!exits && is_ipi);
        let may_poll = halt.window_ns.is_some_and(|window| window > 0);
        if halt.has_polled().unwrap_or(may_poll) {
            self.polls += 1;
            self.successful_polls += u64::from(!halt.waited);
        }
        self.poll_ns.fold(&poll_ns);
        self.halt_ns.fold(&halt.halt_ns);
        if halt.waited {
            self.blocks += 1;
            self.poll_fail_ns.fold(&poll_ns);
            self.sleep_ns.fold(&sample.gap_ns.saturating_sub(poll_ns));
        }
        self.latency_ns.fold(&sample.latency_ns);
        self.latency.record(sample.latency_ns);
    }

    /// Whether it is known how long halts polled: of some at least. Of how many it is not,
    /// [`Outcome::poll_unknown`] says.
    pub fn is_poll_known(&self) -> bool {
        self.poll_unknown < self.halts || self.halts == 0
    }

    /// CPU burnt: polling and switching, in nanoseconds; never more than the halts were long.
    pub fn cpu_ns(&self, cost: &Cost) -> u64 {
        cost.cpu_ns(self.poll_ns, self.blocks, self.halt_ns)
    }

    /// Exits that have a price: what a policy of the guest spares of those on HLT, it may owe to timers.
    pub fn exits(&self) -> u64 {
        self.hlt_exits + self.timer_exits
    }

    /// Total cost, in thousandths of a nanosecond of CPU.
    pub fn milli(&self, cost: &Cost) -> u128 {
        let halts = cost.milli(self.poll_ns, self.blocks, self.latency_ns);
        halts.saturating_add(cost.exits_milli(self.exits(), self.ipis))
    }

    /// Total cost, in nanoseconds of CPU.
    pub fn cost_ns(&self, cost: &Cost) -> f64 {
        self.milli(cost) as f64 / 1e3
    }

    /// Its cost as a multiple of the least possible on the same halts. `None` where that is 0.
    pub fn ratio(&self, cost: &Cost) -> Option<f64> {
        let milli = self.milli(cost);
        (self.clairvoyant_milli > 0).then(|| milli as f64 / self.clairvoyant_milli as f64)
    }

    /// Share of the time in which the vCPU was not asleep (C0 residency, 0 to 1).
    pub fn awake_share(&self) -> Option<f64> {
        let share = 1.0 - self.sleep_ns as f64 / self.span_ns.max(1) as f64;
        (self.span_ns > 0).then(|| share.clamp(0.0, 1.0))
    }
}
