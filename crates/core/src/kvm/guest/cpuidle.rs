//! A KVM guest as a general governor of cpuidle finds it: two states, and how long the first may poll.
//!
//! State 0 is `POLL`, state 1 is HLT. [`Driver::HALTPOLL`] has the numbers of `drivers/cpuidle/cpuidle-haltpoll.c`. A guest
//! without a cpuidle driver has no governor: it executes HLT at once (`default_idle_call`).
//!
//! Both governors are asked with the tick running: it restarts when a task has run. That a state other than HLT may keep
//! it running is left out: it decides nothing between two states.

use super::State;
use crate::kvm::version::Version;

/// The second state of a driver that has two, and the kernel's tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// How long an idle period should last for HLT to be worth it: `target_residency_ns`.
    pub target_residency_ns: u64,
    /// How long HLT takes to leave: `exit_latency_ns`.
    pub exit_latency_ns: u64,
    /// The period of the tick, `TICK_NSEC`.
    pub tick_ns: u64,
}

/// Residencies below this limit no poll: `CPUIDLE_POLL_MIN`.
const LEAST_LIMIT_NS: u64 = 10_000;

/// Below this much of idle time governors do not ask for the next timer: `RESIDENCY_THRESHOLD_NS`.
pub(super) const SHORT_NS: u64 = 15_000;

impl Driver {
    /// The driver haltpoll under a tick of 250 Hz. It asks for no more than a microsecond.
    pub const HALTPOLL: Self = Self {
        target_residency_ns: 1_000,
        exit_latency_ns: 1_000,
        tick_ns: 4_000_000,
    };

    /// How long state 0 polls where the governor sets no limit: `cpuidle_poll_time`, a sixteenth of the tick, unless
    /// HLT asks for less.
    ///
    /// The haltpoll governor's last limit stays in force when another governor follows it: left out.
    pub fn poll_limit_ns(&self) -> u64 {
        let most_ns = self.tick_ns / 16;
        match self.target_residency_ns {
            ns if ns < LEAST_LIMIT_NS => most_ns,
            ns => ns.min(most_ns),
        }
    }

    pub(super) fn latency_ns(&self, state: State) -> u64 {
        match state {
            State::Poll => 0,
            State::Halt => self.exit_latency_ns,
        }
    }
}

/// How an idle state went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub state: State,
    /// How long it lasted: `last_residency_ns`.
    pub residency_ns: u64,
    /// A poll's limit ended it: `poll_time_limit`.
    pub timed_out: bool,
}

/// A governor that chooses by the next timer and by what it remembers.
pub trait Governor {
    /// The state for an idle period; `timer_ns` is the time until the CPU's next timer, where that is known.
    fn select(&mut self, timer_ns: Option<u64>) -> State;

    /// Takes note of how it went.
    fn reflect(&mut self, ended: &Ended);
}

/// The eras of a governor: the first of these versions that is not later than the kernel.
pub(super) fn since(version: Version, major: u32, minor: u32) -> bool {
    version >= Version::new(major, minor)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_poll_lasts_a_sixteenth_of_the_tick_unless_hlt_asks_for_less() {
        for (target_residency_ns, limit_ns) in [
            (1_000, 250_000),
            (9_999, 250_000),
            (10_000, 10_000),
            (400_000, 250_000),
        ] {
            let mut driver = Driver::HALTPOLL;
            driver.target_residency_ns = target_residency_ns;
            assert_eq!(driver.poll_limit_ns(), limit_ns, "{target_residency_ns}");
        }
    }
}
