//! One idle period as the kernel side sends it: bytes in, facts out.
//!
//! The layout is that of `struct idle_record` in `idle_intf.h`, decoded as [`crate::bpf`] decodes halts.

use std::mem::{offset_of, size_of};

use haltwise_core::event::{CeilingSource, Halt, WakeSource, WindowCall, WindowChange};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};

use super::skel::types::{idle_flag, idle_record};
use crate::bpf::record::{u32_at, u64_at};

/// Bytes of a period.
pub(super) const SIZE: usize = size_of::<idle_record>();
const _: () = assert!(
    SIZE == 64,
    "idle_record in idle_intf.h changed: look at this decoder"
);

/// The VM that this machine is: the only one of its capture.
pub(super) const THIS_VM: VmIndex = VmIndex(0);

/// A period as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RawIdle {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) poll_ns: u64,
    pub(super) halt_ns: u64,
    pub(super) wake_ns: u64,
    pub(super) cpu: u32,
    pub(super) limit_ns: u32,
    pub(super) limit_next_ns: u32,
    pub(super) change_old_ns: u32,
    pub(super) change_new_ns: u32,
    pub(super) flags: u32,
}

impl RawIdle {
    /// `None` if there are too few bytes; more are ignored (the ring pads to eight).
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let u32_of = |offset| u32_at(bytes, offset);
        let u64_of = |offset| u64_at(bytes, offset);
        Some(Self {
            start_ns: u64_of(offset_of!(idle_record, start_ns))?,
            end_ns: u64_of(offset_of!(idle_record, end_ns))?,
            poll_ns: u64_of(offset_of!(idle_record, poll_ns))?,
            halt_ns: u64_of(offset_of!(idle_record, halt_ns))?,
            wake_ns: u64_of(offset_of!(idle_record, wake_ns))?,
            cpu: u32_of(offset_of!(idle_record, cpu))?,
            limit_ns: u32_of(offset_of!(idle_record, limit_ns))?,
            limit_next_ns: u32_of(offset_of!(idle_record, limit_next_ns))?,
            change_old_ns: u32_of(offset_of!(idle_record, change_old_ns))?,
            change_new_ns: u32_of(offset_of!(idle_record, change_new_ns))?,
            flags: u32_of(offset_of!(idle_record, flags))?,
        })
    }

    fn has(&self, flag: idle_flag) -> bool {
        self.flags & flag.0 != 0
    }

    fn call(&self) -> WindowCall {
        if self.has(idle_flag::IDLE_GREW) {
            WindowCall::Grow
        } else if self.has(idle_flag::IDLE_SHRANK) {
            WindowCall::Shrink
        } else {
            WindowCall::None
        }
    }

    fn wake(&self) -> WakeSource {
        if self.has(idle_flag::IDLE_WAKE_STORE) || self.has(idle_flag::IDLE_WAKE_IPI) {
            WakeSource::Ipi
        } else if self.has(idle_flag::IDLE_WAKE_TIMER) {
            WakeSource::Timer
        } else if self.has(idle_flag::IDLE_WAKE_DEVICE) {
            WakeSource::Device
        } else {
            WakeSource::Unknown
        }
    }

    /// From when what ended it was due or sent; 0 of a poll, which looks all the time.
    fn wake_latency_ns(&self) -> Option<u64> {
        if !self.has(idle_flag::IDLE_HALTED) {
            return Some(0);
        }
        // A timer that was due later, or an interrupt that was sent before, is not what ended it.
        let since_halt = self.end_ns.saturating_sub(self.halt_ns);
        let known = (since_halt..=self.end_ns).contains(&self.wake_ns);
        known.then(|| self.end_ns - self.wake_ns)
    }

    /// The period as a halt: see `docs/guest.md` for what each field is in a guest.
    ///
    /// `not_before_ns`: when the CPU's last one ended. cpuidle's clock and ours differ by some parts in a million.
    /// `ceiling_ns`: `guest_halt_poll_ns`, where the governor has one.
    pub(super) fn halt(&self, not_before_ns: u64, ceiling_ns: Option<u32>) -> Halt {
        let known = self.has(idle_flag::IDLE_RESIDENCY_KNOWN);
        let limit = |ns| self.has(idle_flag::IDLE_LIMIT_KNOWN).then_some(ns);
        let polled = self.has(idle_flag::IDLE_POLLED);
        let waited = self.has(idle_flag::IDLE_HALTED);
        Halt {
            start_ns: self.start_ns.max(not_before_ns),
            halt_ns: self.poll_ns.saturating_add(self.halt_ns),
            vm: Some(THIS_VM),
            vcpu: Some(VcpuId(self.cpu)),
            tid: Tid(self.cpu),
            waited,
            valid: true,
            window_ns: limit(self.limit_ns),
            window_next_ns: limit(self.limit_next_ns),
            ceiling_ns,
            ceiling_source: match ceiling_ns {
                Some(_) => CeilingSource::Param,
                None => CeilingSource::Unknown,
            },
            change: self.call(),
            // Of a poll alone, the recorder's own clock is near enough; where a halt follows, it is not known which
            // part was which.
            poll_ns: (known || !polled || !waited).then_some(self.poll_ns),
            polled: Some(polled),
            wake_latency_ns: self.wake_latency_ns(),
            wake: self.wake(),
            poll_cut: false,
        }
    }

    /// The call of grow or shrink that the period made, which ended then, where there was one.
    pub(super) fn window_change(&self, end_ns: u64) -> Option<WindowChange> {
        let grow = match self.call() {
            WindowCall::None => return None,
            WindowCall::Grow => true,
            WindowCall::Shrink => false,
        };
        Some(WindowChange {
            time_ns: end_ns,
            vm: Some(THIS_VM),
            vcpu: Some(VcpuId(self.cpu)),
            tid: Tid(self.cpu),
            grow,
            old_ns: self.change_old_ns,
            new_ns: self.change_new_ns,
        })
    }
}

/// Decodes any bytes as a record and reads every fact of it: the door for fuzzing.
#[doc(hidden)]
pub fn fuzz_idle(bytes: &[u8]) -> Option<(Halt, Option<WindowChange>)> {
    let raw = RawIdle::decode(bytes)?;
    let halt = raw.halt(0, None);
    Some((halt, raw.window_change(halt.end_ns())))
}

#[cfg(test)]
mod test {
    use super::*;

    fn raw(flags: &[idle_flag]) -> RawIdle {
        RawIdle {
            start_ns: 1_000_000,
            end_ns: 1_300_000,
            poll_ns: 50_000,
            halt_ns: 250_000,
            wake_ns: 1_280_000,
            cpu: 3,
            limit_ns: 50_000,
            limit_next_ns: 100_000,
            change_old_ns: 50_000,
            change_new_ns: 100_000,
            flags: flags.iter().fold(0, |all, flag| all | flag.0),
        }
    }

    #[test]
    fn a_poll_and_the_halt_after_it_are_one_period() {
        let raw = raw(&[
            idle_flag::IDLE_POLLED,
            idle_flag::IDLE_HALTED,
            idle_flag::IDLE_LIMIT_KNOWN,
            idle_flag::IDLE_RESIDENCY_KNOWN,
            idle_flag::IDLE_GREW,
            idle_flag::IDLE_WAKE_TIMER,
        ]);
        let halt = raw.halt(0, Some(200_000));
        assert_eq!((halt.start_ns, halt.end_ns()), (1_000_000, 1_300_000));
        assert_eq!((halt.vcpu, halt.tid), (Some(VcpuId(3)), Tid(3)));
        assert_eq!(
            (halt.polled, halt.poll_ns, halt.waited),
            (Some(true), Some(50_000), true)
        );
        assert_eq!(
            (halt.wake, halt.wake_latency_ns),
            (WakeSource::Timer, Some(20_000))
        );
        assert_eq!(
            (halt.window_ns, halt.window_next_ns, halt.change),
            (Some(50_000), Some(100_000), WindowCall::Grow)
        );
        let change = raw.window_change(halt.end_ns()).unwrap();
        assert_eq!(
            (change.grow, change.old_ns, change.new_ns, change.time_ns),
            (true, 50_000, 100_000, 1_300_000)
        );
    }

    #[test]
    fn a_poll_that_was_met_has_no_latency_and_a_store_is_an_ipi_that_was_not_sent() {
        let mut raw = raw(&[idle_flag::IDLE_POLLED, idle_flag::IDLE_WAKE_STORE]);
        raw.halt_ns = 0;
        let halt = raw.halt(0, None);
        assert_eq!(
            (halt.waited, halt.wake_latency_ns, halt.wake),
            (false, Some(0), WakeSource::Ipi)
        );
        assert_eq!(halt.ceiling_source, CeilingSource::Unknown);
        assert_eq!((halt.window_ns, raw.window_change(1)), (None, None));
    }

    #[test]
    fn a_wake_outside_the_halt_is_not_what_ended_it() {
        let mut raw = raw(&[idle_flag::IDLE_HALTED, idle_flag::IDLE_WAKE_TIMER]);
        for (wake_ns, latency) in [
            (0, None),
            (1_049_999, None),
            (1_050_000, Some(250_000)),
            (1_300_000, Some(0)),
            (1_300_001, None),
        ] {
            raw.wake_ns = wake_ns;
            assert_eq!(raw.halt(0, None).wake_latency_ns, latency, "{wake_ns}");
        }
    }

    #[test]
    fn a_residency_that_cpuidle_did_not_keep_leaves_the_time_polled_unknown() {
        let both = raw(&[idle_flag::IDLE_POLLED, idle_flag::IDLE_HALTED]);
        assert_eq!(both.halt(0, None).poll_ns, None);
        let mut polled = raw(&[idle_flag::IDLE_POLLED]);
        polled.halt_ns = 0;
        assert_eq!(polled.halt(0, None).poll_ns, Some(50_000));
        let mut halted = raw(&[idle_flag::IDLE_HALTED]);
        halted.poll_ns = 0;
        assert_eq!(halted.halt(0, None).poll_ns, Some(0));
    }

    #[test]
    fn periods_of_a_cpu_do_not_overlap() {
        assert_eq!(raw(&[]).halt(1_000_500, None).start_ns, 1_000_500);
    }
}
