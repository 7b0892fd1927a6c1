//! Cause that ended a halt, judged from eight facts that the kernel side saw.
//!
//! A halt that slept had a waker: an hrtimer, another vCPU, any other context. A halt that
//! was still polling had no waker; there the pending interrupt tells: the LAPIC timer's count,
//! or the vector that the LAPIC would deliver next, compared with the vectors seen to carry IPIs,
//! timers and PIT ticks in this process.
//!
//! Where both are known, the waker goes first: it is what ended *this* halt, while a second interrupt
//! may have come during the wake-up. Only a vCPU thread as waker needs the vector to confirm it, for
//! such a thread may be running the VMM's device code, or be interrupted by a device of the host. A timer
//! that is pending then is no cause: guests' timers wake from an hrtimer's function or a PIT's thread.

use haltwise_core::event::WakeSource;

use super::skel::collector::types::halt_flag;

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

pub(super) fn facts(flags: u32) -> WakeFacts {
    WakeFacts(flags.to_le_bytes()[2])
}

/// The wake facts that an index of `vcpu_counts.wakes` stands for.
pub(super) fn facts_of_index(index: u8) -> WakeFacts {
    WakeFacts(index)
}

impl WakeFacts {
    fn has(self, flag: halt_flag) -> bool {
        u32::from(self.0) << SHIFT & flag.0 != 0
    }
}

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
    use super::*;

    fn of(flags: &[halt_flag]) -> WakeSource {
        source(facts(flags.iter().fold(0, |all, flag| all | flag.0)))
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
            let known = source(facts_of_index(index));
            assert_eq!(known, source(facts(u32::from(index) << SHIFT)));
            assert_ne!(known, WakeSource::Other);
        }
    }
}
