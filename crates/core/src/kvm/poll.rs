//! When polling ends, and what counts as a success.
//!
//! The loop is: check for an event; if there is none, read the clock; go on as long as nothing of
//! [`Stop`] holds. So a poll makes at least one check, and a stop costs a last read of the clock.
//!
//! An event is: the port says that the vCPU is runnable, a timer of it is pending, its thread has a
//! signal, or (read in 6.1, not in 5.10) somebody asked to unblock it: `kvm_vcpu_check_block` in
//! `virt/kvm/kvm_main.c`.

use super::rule::{Rule, Success, WindowOf};

/// Why polling ends without an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The window is over.
    Deadline,
    /// Another task is ready on this CPU: `single_task_running` is false.
    OtherTask,
    /// The scheduler wants this CPU: `need_resched`. Bandwidth control asks so of a task that is alone
    /// on its CPU, and without this stop a throttled vCPU polls on.
    ///
    /// Since 5.13, and in stable kernels before (read in 5.10.223).
    NeedResched,
}

impl Stop {
    pub const ALL: [Self; 3] = [Self::Deadline, Self::OtherTask, Self::NeedResched];
}

/// How a halt went, as far as counting polls goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Polled {
    /// The polling loop was entered: the window was above 0, and polling allowed.
    pub attempted: bool,
    /// The loop itself saw the event.
    pub in_loop: bool,
    /// The vCPU was scheduled out: `waited` of the tracepoint `kvm_vcpu_wakeup`.
    pub waited: bool,
}

impl Rule {
    /// Whether polling ends for this reason. The kernel's condition is `kvm_vcpu_can_poll` since 5.14,
    /// and the same tests in place before.
    ///
    /// That 4.0 to 4.2 knew the first two and no other is from memory.
    pub fn stops_on(&self, stop: Stop) -> bool {
        match stop {
            Stop::Deadline | Stop::OtherTask => true,
            Stop::NeedResched => self.stops_on_need_resched,
        }
    }

    /// Whether a halt polls at all: since 5.2 `kvm_arch_no_poll` may forbid it where the port has that.
    pub fn polls(&self, window: u32, allowed: bool) -> bool {
        window > 0 && (allowed || self.no_poll == super::rule::NoPoll::Unknown)
    }

    /// Whether `halt_successful_poll` counts the halt.
    ///
    /// 5.8 to 5.16 book `halt_poll_success_ns` by "never scheduled out" already, while they count
    /// `halt_successful_poll` in the loop: there the two may disagree by the halts whose event came
    /// between the loop and the sleep.
    pub fn poll_succeeded(&self, polled: Polled) -> bool {
        let found = match self.success {
            Success::InLoop => polled.in_loop,
            Success::NeverWaited => !polled.waited,
        };
        self.window != WindowOf::NoPolling && polled.attempted && found
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::kvm::{Arch, Backport};

    fn rule(version: &str) -> Rule {
        Rule::of(version.parse().unwrap(), Arch::X86)
    }

    #[test]
    fn the_scheduler_stops_a_poll_since_5_13() {
        for (version, expected) in [
            ("4.0", false),
            ("5.12", false),
            ("5.13", true),
            ("7.2", true),
        ] {
            assert_eq!(
                rule(version).stops_on(Stop::NeedResched),
                expected,
                "{version}"
            );
            assert!(rule(version).stops_on(Stop::Deadline));
            assert!(rule(version).stops_on(Stop::OtherTask));
        }
        let stable = rule("5.10").with(Backport::NeedResched);
        assert!(Stop::ALL.iter().all(|stop| stable.stops_on(*stop)));
    }

    #[test]
    fn an_event_after_the_loop_is_a_success_since_5_17() {
        let late = Polled {
            attempted: true,
            in_loop: false,
            waited: false,
        };
        let in_loop = Polled {
            in_loop: true,
            ..late
        };
        let slept = Polled {
            waited: true,
            ..late
        };
        for (version, expected) in [
            ("4.3", false),
            ("5.16", false),
            ("5.17", true),
            ("6.1", true),
        ] {
            assert_eq!(rule(version).poll_succeeded(late), expected, "{version}");
            assert!(rule(version).poll_succeeded(in_loop), "{version}");
            assert!(!rule(version).poll_succeeded(slept), "{version}");
        }
        let core = Rule::of("4.9".parse().unwrap(), Arch::PowerpcHv);
        assert!(core.poll_succeeded(late), "a virtual core looks once more");
    }

    #[test]
    fn what_was_not_tried_does_not_succeed() {
        let untried = Polled {
            attempted: false,
            in_loop: false,
            waited: false,
        };
        for version in ["4.0", "5.16", "5.17", "7.2"] {
            assert!(!rule(version).poll_succeeded(untried), "{version}");
        }
    }

    #[test]
    fn polling_is_forbidden_only_where_the_port_can() {
        for (version, arch, expected) in [
            ("5.2", Arch::X86, true),
            ("5.3", Arch::X86, false),
            ("5.1", Arch::S390, true),
            ("5.2", Arch::S390, false),
            ("7.2", Arch::X86, false),
            ("7.2", Arch::Arm64, true),
            ("7.2", Arch::PowerpcHv, true),
        ] {
            let rule = Rule::of(version.parse().unwrap(), arch);
            assert_eq!(rule.polls(1, false), expected, "{version} {arch}");
            assert!(rule.polls(1, true), "{version} {arch}");
            assert!(!rule.polls(0, true), "{version} {arch}");
        }
    }
}
