//! An idle period of a CPU, and the halt that it is.

use crate::event::{CeilingSource, Halt, WakeSource};
use crate::ids::{Tid, VcpuId, VmIndex};
use crate::kvm::Call;

/// The VM that this machine is: the only one of its capture.
pub const THIS_VM: VmIndex = VmIndex(0);

/// One idle period of a CPU: the polling state, if it was entered, and the state after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Period {
    pub cpu: u32,
    /// When the first state was entered.
    pub start_ns: u64,
    /// When the last one was left.
    pub end_ns: u64,
    /// Time in the polling state.
    pub poll_ns: u64,
    /// Time in the other.
    pub halt_ns: u64,
    /// The polling state was entered.
    pub polled: bool,
    /// Another state was entered, after it or at once.
    pub halted: bool,
    /// It is known which part of the time was in which of the two.
    pub told_apart: bool,
    /// The governor's limit when it began.
    pub limit_ns: Option<u32>,
    /// And when the next one began.
    pub limit_next_ns: Option<u32>,
    /// The governor's call of grow or shrink.
    pub change: Option<Call>,
    pub wake: WakeSource,
    /// When that was due or was sent.
    pub wake_ns: Option<u64>,
}

impl Period {
    /// From when what ended it was due or sent; 0 of a poll, which looks all the time.
    fn wake_latency_ns(&self) -> Option<u64> {
        if !self.halted {
            return Some(0);
        }
        // A timer that was due later, or an interrupt that was sent before, is not what ended it.
        let since_halt = self.end_ns.saturating_sub(self.halt_ns);
        let known = (self.wake_ns).filter(|at| (since_halt..=self.end_ns).contains(at));
        known.map(|at| self.end_ns - at)
    }

    /// The period as a halt: see `docs/guest.md` for what each field is in a guest.
    ///
    /// `not_before_ns`: when the CPU's last one ended. cpuidle's clock and ours differ by some parts in a million.
    /// `ceiling_ns`: `guest_halt_poll_ns`, where the governor has one.
    pub fn halt(&self, not_before_ns: u64, ceiling_ns: Option<u32>) -> Halt {
        Halt {
            start_ns: self.start_ns.max(not_before_ns),
            halt_ns: self.poll_ns.saturating_add(self.halt_ns),
            vm: Some(THIS_VM),
            vcpu: Some(VcpuId(self.cpu)),
            tid: Tid(self.cpu),
            waited: self.halted,
            valid: true,
            window_ns: self.limit_ns,
            window_next_ns: self.limit_next_ns,
            ceiling_ns,
            ceiling_source: match ceiling_ns {
                Some(_) => CeilingSource::Param,
                None => CeilingSource::Unknown,
            },
            change: self.change.into(),
            // For a poll alone, any clock is accurate enough; if a halt follows, the two parts must be told apart.
            poll_ns: (self.told_apart || !self.polled || !self.halted).then_some(self.poll_ns),
            polled: Some(self.polled),
            wake_latency_ns: self.wake_latency_ns(),
            wake: self.wake,
            poll_cut: Some(false),
            cpu: None,
            waker_cpu: None,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_residency_that_cpuidle_did_not_keep_leaves_the_time_polled_unknown() {
        let period = |polled, halted| Period {
            cpu: 3,
            start_ns: 1_000_000,
            end_ns: 1_300_000,
            poll_ns: u64::from(polled) * 50_000,
            halt_ns: u64::from(halted) * 250_000,
            polled,
            halted,
            told_apart: false,
            limit_ns: Some(50_000),
            limit_next_ns: Some(50_000),
            change: None,
            wake: WakeSource::Timer,
            wake_ns: Some(1_280_000),
        };
        let poll_ns = |polled, halted| period(polled, halted).halt(0, None).poll_ns;
        assert_eq!(poll_ns(true, true), None);
        assert_eq!(poll_ns(true, false), Some(50_000));
        assert_eq!(poll_ns(false, true), Some(0));
    }
}
