//! Halted time, split into what it was spent on. The parts always add up to the halted time.
//!
//! ```text
//! |<-------------------------- halt_ns (KVM's H) --------------------------->|
//! |<- poll ->|<----------------- sleep ----------------->|<- wake-up latency ->|
//!            window over: the vCPU is scheduled out       wake event           running
//! ```
//!
//! A halt that never gave up its CPU is all poll, but for what KVM took on its way to the sleep that
//! it did not enter: `turned_back`. What a recording cannot say is `unknown`, never zero.

use serde::Serialize;

use super::sums::folds;
use crate::event::{Halt, HaltCounts};
use crate::stats::total;

/// Halted time by use, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct Parts {
    /// Polled, and woken by that poll.
    pub poll_success_ns: u64,
    /// Polled without success: the vCPU slept afterwards.
    pub poll_fail_ns: u64,
    /// Slept: the CPU was free for others.
    pub sleep_ns: u64,
    pub wake_latency_ns: u64,
    /// Neither polled nor slept: woken before it was scheduled out.
    pub turned_back_ns: u64,
    pub unknown_ns: u64,
}

impl Parts {
    /// The parts of one halt.
    ///
    /// Should poll and latency exceed the halt (two clocks were read), they are cut to fit.
    pub fn of_halt(halt: &Halt) -> Self {
        let all = halt.halt_ns;
        let mut parts = Self::default();
        if !halt.waited {
            match halt.poll_ns {
                Some(poll_ns) => {
                    parts.poll_success_ns = poll_ns.min(all);
                    parts.turned_back_ns = all - parts.poll_success_ns;
                }
                None => parts.unknown_ns = all,
            }
            return parts;
        }
        parts.poll_fail_ns = halt.poll_ns.unwrap_or(0).min(all);
        let rest = all - parts.poll_fail_ns;
        parts.wake_latency_ns = halt.wake_latency_ns.unwrap_or(0).min(rest);
        let rest = rest - parts.wake_latency_ns;
        if halt.poll_ns.is_some() && halt.wake_latency_ns.is_some() {
            parts.sleep_ns = rest;
        } else {
            parts.unknown_ns = rest;
        }
        parts
    }

    /// The parts of an interval's counts.
    ///
    /// The halts whose latency is not known are those outside the histogram of gaps: their time is
    /// unknown, but for what they polled, which counts do not tell apart and which is taken from
    /// sleep. Where counts do not tell what was woken before `schedule()`, that is in sleep too.
    pub fn of_counts(counts: &HaltCounts) -> Self {
        let all = counts.halt_ns.sum();
        let mut parts = Self {
            wake_latency_ns: counts.wake_latency_ns.sum().min(all),
            ..Self::default()
        };
        let rest = all - parts.wake_latency_ns;
        if counts.polls_known() == 0 {
            parts.unknown_ns = rest;
            return parts;
        }
        parts.poll_success_ns = counts.poll_success_ns.sum().min(rest);
        let rest = rest - parts.poll_success_ns;
        parts.poll_fail_ns = counts.poll_fail_ns.sum().min(rest);
        let rest = rest - parts.poll_fail_ns;
        parts.turned_back_ns = counts.turned_back_ns.unwrap_or(0).min(rest);
        let rest = rest - parts.turned_back_ns;
        let awake = parts.poll_success_ns + parts.poll_fail_ns + parts.turned_back_ns;
        let unknown_halts = counts.halts.saturating_sub(counts.gap_ns.count());
        parts.sleep_ns = if unknown_halts == 0 {
            rest
        } else {
            counts.gap_ns.sum().saturating_sub(awake).min(rest)
        };
        parts.unknown_ns = rest - parts.sleep_ns;
        parts
    }

    /// All of them together: the halted time.
    pub fn total_ns(&self) -> u64 {
        total(self.named().map(|(_, ns)| ns))
    }

    /// The parts with the names under which they are printed, in the order of a halt.
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("successful poll", self.poll_success_ns),
            ("failed poll", self.poll_fail_ns),
            ("sleep", self.sleep_ns),
            ("wake-up latency", self.wake_latency_ns),
            ("no schedule()", self.turned_back_ns),
            ("unknown", self.unknown_ns),
        ]
    }
}

folds! {
    Parts { poll_success_ns, poll_fail_ns, sleep_ns, wake_latency_ns, turned_back_ns, unknown_ns }
}
