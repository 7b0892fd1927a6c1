//! One halt as the kernel side sends it: bytes in, facts out.
//!
//! The layout is that of `struct halt_record` in `intf.h`; offsets come from the type generated out
//! of it, values by checked copies, so that no byte from the kernel is ever cast.
//!
//! | field | source |
//! |---|---|
//! | `halt_ns`, `waited`, `valid` | the tracepoint `kvm_vcpu_wakeup` |
//! | `window_ns` | `kvm_halt_poll_ns.old` if it fired, else `vcpu->halt_poll_ns` after the halt; if that is 0, what the last halt left, clamped to the ceiling |
//! | `ceiling_ns` | `kvm->max_halt_poll_ns` if overridden, else the module parameter |
//! | `poll_ns` | growth of KVM's counters `halt_poll_success_ns` and `halt_poll_fail_ns` |
//! | `wake_latency_ns` | KVM's own where `kvm_vcpu_wakeup` tells it; else end of the halt less the time of `sched_waking`, so that gap and latency are `halt_ns` |
//! | `wake` | the waker's context; for a halt still polling, the pending interrupt |
//! | `cpu`, `waker_cpu` | where `kvm_vcpu_wakeup` and `sched_waking` ran |
//! | `poll_cut` | polled for less than the window, and slept |

use std::mem::{offset_of, size_of};

use haltwise_core::event::{CeilingSource, Halt, WakeSource, WindowCall, WindowChange};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};

use super::skel::collector::types::halt_flag;
pub(super) use super::skel::collector::types::halt_record as RawHalt;
use crate::bytes::{u32_at, u64_at};

pub(super) const SIZE: usize = size_of::<RawHalt>();
const _: () = assert!(
    SIZE == 88,
    "halt_record in intf.h changed: look at this decoder"
);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) vm: Option<VmIndex>,
    pub(super) vcpu: Option<VcpuId>,
}

impl RawHalt {
    /// `None` if there are too few bytes; more are ignored (the ring pads to eight).
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let u32_of = |offset| u32_at(bytes, offset);
        let u64_of = |offset| u64_at(bytes, offset);
        Some(Self {
            end_ns: u64_of(offset_of!(RawHalt, end_ns))?,
            halt_ns: u64_of(offset_of!(RawHalt, halt_ns))?,
            waking_ns: u64_of(offset_of!(RawHalt, waking_ns))?,
            vcpu: u64_of(offset_of!(RawHalt, vcpu))?,
            kvm: u64_of(offset_of!(RawHalt, kvm))?,
            tid: u32_of(offset_of!(RawHalt, tid))?,
            tgid: u32_of(offset_of!(RawHalt, tgid))?,
            poll_ns: u32_of(offset_of!(RawHalt, poll_ns))?,
            window_ns: u32_of(offset_of!(RawHalt, window_ns))?,
            window_next_ns: u32_of(offset_of!(RawHalt, window_next_ns))?,
            ceiling_ns: u32_of(offset_of!(RawHalt, ceiling_ns))?,
            change_old_ns: u32_of(offset_of!(RawHalt, change_old_ns))?,
            change_new_ns: u32_of(offset_of!(RawHalt, change_new_ns))?,
            vcpu_id: u32_of(offset_of!(RawHalt, vcpu_id))?,
            flags: u32_of(offset_of!(RawHalt, flags))?,
            cpu: u32_of(offset_of!(RawHalt, cpu))?,
            waker_cpu: u32_of(offset_of!(RawHalt, waker_cpu))?,
        })
    }

    pub(super) fn has(&self, flag: halt_flag) -> bool {
        self.flags & flag.0 != 0
    }

    fn if_has<T>(&self, flag: halt_flag, value: T) -> Option<T> {
        self.has(flag).then_some(value)
    }

    pub(super) fn vcpu_id(&self) -> Option<VcpuId> {
        let known =
            halt_flag::HALT_VCPU_KNOWN.0 | halt_flag::HALT_GREW.0 | halt_flag::HALT_SHRANK.0;
        (self.flags & known != 0).then_some(VcpuId(self.vcpu_id))
    }

    fn call(&self) -> WindowCall {
        if self.has(halt_flag::HALT_GREW) {
            WindowCall::Grow
        } else if self.has(halt_flag::HALT_SHRANK) {
            WindowCall::Shrink
        } else {
            WindowCall::None
        }
    }

    fn ceiling_source(&self) -> CeilingSource {
        if !self.has(halt_flag::HALT_CEILING_KNOWN) {
            CeilingSource::Unknown
        } else if self.has(halt_flag::HALT_CEILING_CAP) {
            CeilingSource::Cap
        } else if self.has(halt_flag::HALT_CEILING_SNAPSHOT) {
            CeilingSource::Snapshot
        } else {
            CeilingSource::Param
        }
    }

    /// Time polled: KVM's own count; else 0 where the window was 0; else not known.
    fn poll_ns(&self) -> Option<u64> {
        if self.has(halt_flag::HALT_POLL_KNOWN) {
            let polled = self.has(halt_flag::HALT_POLLED);
            return Some(if polled { u64::from(self.poll_ns) } else { 0 });
        }
        (self.has(halt_flag::HALT_WINDOW_KNOWN) && self.window_ns == 0).then_some(0)
    }

    fn wake_latency_ns(&self) -> Option<u64> {
        if !self.has(halt_flag::HALT_WAITED) {
            return Some(0);
        }
        let latency_ns = self.end_ns.saturating_sub(self.waking_ns);
        if self.has(halt_flag::HALT_LATENCY_TOLD) {
            return Some(latency_ns.min(self.halt_ns)).filter(|&ns| ns > 0);
        }
        self.if_has(halt_flag::HALT_WOKEN, latency_ns)
    }

    /// The poll ended before its window did, and yet the vCPU slept: another task wanted the CPU
    /// (`kvm_vcpu_can_poll`; a poll that runs its course is booked with at least the window).
    fn poll_cut(&self) -> Option<bool> {
        if !self.has(halt_flag::HALT_WAITED) {
            return Some(false);
        }
        let known = halt_flag::HALT_POLL_KNOWN.0 | halt_flag::HALT_WINDOW_KNOWN.0;
        let polled = self.has(halt_flag::HALT_POLLED);
        (self.flags & known == known).then_some(polled && self.poll_ns < self.window_ns)
    }

    pub(super) fn halt(&self, place: Place) -> Halt {
        Halt {
            start_ns: self.end_ns.saturating_sub(self.halt_ns),
            halt_ns: self.halt_ns,
            vm: place.vm,
            vcpu: place.vcpu,
            tid: Tid(self.tid),
            waited: self.has(halt_flag::HALT_WAITED),
            valid: self.has(halt_flag::HALT_VALID),
            window_ns: self.if_has(halt_flag::HALT_WINDOW_KNOWN, self.window_ns),
            window_next_ns: self.if_has(halt_flag::HALT_NEXT_KNOWN, self.window_next_ns),
            ceiling_ns: self.if_has(halt_flag::HALT_CEILING_KNOWN, self.ceiling_ns),
            ceiling_source: self.ceiling_source(),
            change: self.call(),
            poll_ns: self.poll_ns(),
            polled: self.if_has(halt_flag::HALT_POLL_KNOWN, self.has(halt_flag::HALT_POLLED)),
            wake_latency_ns: self.wake_latency_ns(),
            wake: source(wake_facts(self.flags)),
            poll_cut: self.poll_cut(),
            cpu: Some(self.cpu),
            waker_cpu: self.if_has(halt_flag::HALT_WOKEN, self.waker_cpu),
        }
    }

    pub(super) fn window_change(&self, place: Place) -> Option<WindowChange> {
        let grow = match self.call() {
            WindowCall::None => return None,
            WindowCall::Grow => true,
            WindowCall::Shrink => false,
        };
        Some(WindowChange {
            time_ns: self.end_ns,
            vm: place.vm,
            vcpu: Some(VcpuId(self.vcpu_id)),
            tid: Tid(self.tid),
            grow,
            old_ns: self.change_old_ns,
            new_ns: self.change_new_ns,
        })
    }
}

#[doc(hidden)]
pub fn fuzz_record(bytes: &[u8]) -> Option<(Halt, Option<WindowChange>)> {
    let raw = RawHalt::decode(bytes)?;
    Some((
        raw.halt(Place::default()),
        raw.window_change(Place::default()),
    ))
}

/// The bits of `enum halt_flag` from `WAKE_SHIFT` up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WakeFacts(u8);

const SHIFT: u32 = 16;
const _: () = assert!(
    halt_flag::HALT_WOKEN.0 == 1 << SHIFT,
    "WAKE_SHIFT in intf.h changed"
);
const _: () = assert!(
    halt_flag::HALT_INTERRUPT_TIMER.0 == 1 << (SHIFT + 7),
    "the wake bits in intf.h are no longer eight"
);

pub(super) fn wake_facts(flags: u32) -> WakeFacts {
    WakeFacts(flags.to_le_bytes()[2])
}

/// The wake facts that an index of `vcpu_counts.wakes` stands for.
pub(super) fn wake_facts_of_index(index: u8) -> WakeFacts {
    WakeFacts(index)
}

impl WakeFacts {
    fn has(self, flag: halt_flag) -> bool {
        u32::from(self.0) << SHIFT & flag.0 != 0
    }
}

/// Cause that ended a halt, judged from eight facts that the kernel side saw.
///
/// A halt that slept had a waker: an hrtimer, another vCPU, any other context. A halt that was still polling had
/// none; there the pending interrupt tells: the LAPIC timer's count, or the vector that the LAPIC would deliver
/// next, compared with the vectors seen to carry IPIs, timers and PIT ticks in this process.
///
/// Where both are known, the waker goes first: it ended *this* halt, while a second interrupt may have come during
/// the wake-up. Only a vCPU thread as waker needs the vector to confirm it, for such a thread may be running the
/// VMM's device code, or be interrupted by a device of the host. A timer that is pending then is no cause: guests'
/// timers wake from an hrtimer's function or a PIT's thread.
pub(super) fn source(facts: WakeFacts) -> WakeSource {
    if facts.has(halt_flag::HALT_WAKER_HRTIMER) || facts.has(halt_flag::HALT_WAKER_PIT) {
        return WakeSource::Timer;
    }
    let pending = pending(facts);
    if facts.has(halt_flag::HALT_WAKER_VCPU) {
        return match pending {
            Some(WakeSource::Device) => WakeSource::Device,
            _ => WakeSource::Ipi,
        };
    }
    if facts.has(halt_flag::HALT_WOKEN) {
        // Neither a timer nor a known vCPU: the VMM, vhost, irqfd's worker, an interrupt of the host;
        // or a vCPU thread that has not halted yet, and which only its vector gives away.
        return match pending {
            Some(WakeSource::Ipi) => WakeSource::Ipi,
            _ => WakeSource::Device,
        };
    }
    pending.unwrap_or(WakeSource::Unknown)
}

fn pending(facts: WakeFacts) -> Option<WakeSource> {
    if facts.has(halt_flag::HALT_TIMER_PENDING) || facts.has(halt_flag::HALT_INTERRUPT_TIMER) {
        Some(WakeSource::Timer)
    } else if facts.has(halt_flag::HALT_INTERRUPT_IPI) {
        Some(WakeSource::Ipi)
    } else if facts.has(halt_flag::HALT_INTERRUPT) {
        Some(WakeSource::Device)
    } else {
        None
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::account::parts::Parts;
    use haltwise_core::event::WakeSource;

    use super::*;

    fn raw(flags: &[halt_flag]) -> RawHalt {
        RawHalt {
            end_ns: 1_000_000,
            halt_ns: 100_000,
            waking_ns: 970_000,
            poll_ns: 50_000,
            window_ns: 50_000,
            window_next_ns: 25_000,
            ceiling_ns: 200_000,
            flags: flags.iter().fold(0, |all, flag| all | flag.0),
            ..RawHalt::default()
        }
    }

    #[test]
    fn bytes_are_read_where_the_header_puts_them() {
        let mut bytes = [0_u8; SIZE + 3];
        bytes[offset_of!(RawHalt, halt_ns)..][..8].copy_from_slice(&77_u64.to_ne_bytes());
        bytes[offset_of!(RawHalt, tid)..][..4].copy_from_slice(&4711_u32.to_ne_bytes());
        bytes[offset_of!(RawHalt, flags)..][..4].copy_from_slice(&1_u32.to_ne_bytes());
        let raw = RawHalt::decode(&bytes).unwrap();
        assert_eq!((raw.halt_ns, raw.tid, raw.flags), (77, 4711, 1));
        for cut in 0..offset_of!(RawHalt, flags) + 4 {
            assert!(RawHalt::decode(&bytes[..cut]).is_none(), "{cut} bytes");
        }
    }

    #[test]
    fn a_failed_poll_with_everything_known() {
        let halt = raw(&[
            halt_flag::HALT_WAITED,
            halt_flag::HALT_VALID,
            halt_flag::HALT_WINDOW_KNOWN,
            halt_flag::HALT_CEILING_KNOWN,
            halt_flag::HALT_POLL_KNOWN,
            halt_flag::HALT_POLLED,
            halt_flag::HALT_NEXT_KNOWN,
            halt_flag::HALT_SHRANK,
            halt_flag::HALT_WOKEN,
            halt_flag::HALT_WAKER_HRTIMER,
        ])
        .halt(Place::default());
        assert_eq!(halt.start_ns, 900_000);
        assert_eq!(halt.wake_latency_ns, Some(30_000));
        assert_eq!(halt.gap_ns(), Some(70_000));
        assert_eq!(Parts::of_halt(&halt).sleep_ns, 20_000);
        assert_eq!(halt.ceiling_source, CeilingSource::Param);
        assert_eq!(
            (halt.wake, halt.change),
            (WakeSource::Timer, WindowCall::Shrink)
        );
        assert!(!halt.is_preempted());
        for (flag, source) in [
            (halt_flag::HALT_CEILING_CAP, CeilingSource::Cap),
            (halt_flag::HALT_CEILING_SNAPSHOT, CeilingSource::Snapshot),
        ] {
            let halt = raw(&[halt_flag::HALT_CEILING_KNOWN, flag]).halt(Place::default());
            assert_eq!(halt.ceiling_source, source);
        }
    }

    #[test]
    fn a_poll_shorter_than_its_window_was_cut_only_if_the_vcpu_slept() {
        let flags = [
            halt_flag::HALT_WINDOW_KNOWN,
            halt_flag::HALT_POLL_KNOWN,
            halt_flag::HALT_POLLED,
            halt_flag::HALT_WAITED,
        ];
        let mut cut = raw(&flags);
        cut.poll_ns = 49_999;
        assert_eq!(cut.poll_cut(), Some(true));
        let mut woke = raw(&flags[..3]);
        woke.poll_ns = 49_999;
        assert_ne!(woke.poll_cut(), Some(true));
    }

    #[test]
    fn what_was_not_seen_is_none_and_never_zero() {
        let halt = raw(&[halt_flag::HALT_WAITED]).halt(Place::default());
        assert_eq!(
            (
                halt.window_ns,
                halt.window_next_ns,
                halt.ceiling_ns,
                halt.poll_ns
            ),
            (None, None, None, None)
        );
        assert_eq!((halt.wake_latency_ns, halt.gap_ns()), (None, None));
        assert_eq!(halt.wake, WakeSource::Unknown);
        assert_eq!(halt.ceiling_source, CeilingSource::Unknown);
    }

    /// KVM's own latency, also where no waker was seen; 0 is not known.
    #[test]
    fn the_latency_that_kvm_tells_goes_first() {
        let mut told = raw(&[halt_flag::HALT_WAITED, halt_flag::HALT_LATENCY_TOLD]);
        assert_eq!(told.wake_latency_ns(), Some(30_000));
        told.waking_ns = told.end_ns;
        assert_eq!(told.wake_latency_ns(), None);
        told.flags |= halt_flag::HALT_WOKEN.0;
        assert_eq!(told.wake_latency_ns(), None);
    }

    /// As when the guest disables host polling while the vCPU has a window.
    #[test]
    fn a_halt_that_kvm_counted_no_poll_of_is_none_though_it_had_a_window() {
        let flags = [halt_flag::HALT_WINDOW_KNOWN, halt_flag::HALT_POLL_KNOWN];
        let mut turned_back = raw(&flags);
        turned_back.poll_ns = 0;
        let halt = turned_back.halt(Place::default());
        assert_eq!((halt.polled, halt.has_polled()), (Some(false), Some(false)));
        turned_back.flags |= halt_flag::HALT_POLLED.0;
        let halt = turned_back.halt(Place::default());
        assert_eq!((halt.poll_ns, halt.has_polled()), (Some(0), Some(true)));
        assert_eq!(raw(&[]).halt(Place::default()).polled, None);
    }

    fn of(flags: &[halt_flag]) -> WakeSource {
        source(wake_facts(flags.iter().fold(0, |all, flag| all | flag.0)))
    }

    #[test]
    fn each_case_by_its_facts() {
        use halt_flag as f;
        for (flags, expected) in [
            // Polling, so it had no waker: the pending interrupt tells.
            (&[][..], WakeSource::Unknown),
            (&[f::HALT_TIMER_PENDING], WakeSource::Timer),
            (&[f::HALT_INTERRUPT], WakeSource::Device),
            (&[f::HALT_INTERRUPT, f::HALT_INTERRUPT_IPI], WakeSource::Ipi),
            (
                &[f::HALT_INTERRUPT, f::HALT_INTERRUPT_TIMER],
                WakeSource::Timer,
            ),
            // Asleep: the waker tells.
            (&[f::HALT_WOKEN, f::HALT_WAKER_HRTIMER], WakeSource::Timer),
            (
                &[f::HALT_WOKEN, f::HALT_WAKER_PIT, f::HALT_INTERRUPT],
                WakeSource::Timer,
            ),
            (&[f::HALT_WOKEN], WakeSource::Device),
            (&[f::HALT_WOKEN, f::HALT_INTERRUPT], WakeSource::Device),
            (
                &[f::HALT_WOKEN, f::HALT_INTERRUPT, f::HALT_INTERRUPT_IPI],
                WakeSource::Ipi,
            ),
            // A timer that came during the wake-up does not change what woke it.
            (&[f::HALT_WOKEN, f::HALT_TIMER_PENDING], WakeSource::Device),
            (&[f::HALT_WOKEN, f::HALT_WAKER_VCPU], WakeSource::Ipi),
            (
                &[
                    f::HALT_WOKEN,
                    f::HALT_WAKER_VCPU,
                    f::HALT_INTERRUPT,
                    f::HALT_INTERRUPT_IPI,
                ],
                WakeSource::Ipi,
            ),
            // Here too a timer may have come during the wake-up.
            (
                &[f::HALT_WOKEN, f::HALT_WAKER_VCPU, f::HALT_TIMER_PENDING],
                WakeSource::Ipi,
            ),
            (
                &[
                    f::HALT_WOKEN,
                    f::HALT_WAKER_VCPU,
                    f::HALT_INTERRUPT,
                    f::HALT_INTERRUPT_TIMER,
                ],
                WakeSource::Ipi,
            ),
            // A vCPU thread in the VMM's device code.
            (
                &[f::HALT_WOKEN, f::HALT_WAKER_VCPU, f::HALT_INTERRUPT],
                WakeSource::Device,
            ),
        ] {
            assert_eq!(of(flags), expected, "{flags:?}");
        }
    }

    #[test]
    fn every_index_of_counts_mode_has_a_source() {
        for index in 0..=u8::MAX {
            let known = source(wake_facts_of_index(index));
            assert_eq!(known, source(wake_facts(u32::from(index) << SHIFT)));
            assert_ne!(known, WakeSource::Other);
        }
    }
}
