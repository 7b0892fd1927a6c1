//! One idle period as the kernel side sends it: bytes in, a [`Period`] out.
//!
//! The layout is that of `struct idle_record` in `idle_intf.h`, decoded as [`crate::bpf`] decodes halts.

use std::mem::{offset_of, size_of};

use haltwise_core::decode::idle::Period;
use haltwise_core::event::{Halt, WakeSource, WindowChange};
use haltwise_core::kvm::Call;

use crate::bpf::skel::idle::types::{idle_flag, idle_record};
use crate::bytes::{u32_at, u64_at};

pub(super) const SIZE: usize = size_of::<idle_record>();
const _: () = assert!(
    SIZE == 64,
    "idle_record in idle_intf.h changed: look at this decoder"
);

/// `None` if there are too few bytes; more are ignored (the ring pads to eight).
pub(super) fn decode(bytes: &[u8]) -> Option<Period> {
    let u32_of = |offset| u32_at(bytes, offset);
    let u64_of = |offset| u64_at(bytes, offset);
    let flags = u32_of(offset_of!(idle_record, flags))?;
    let has = |flag: idle_flag| flags & flag.0 != 0;
    let limit = |ns: u32| has(idle_flag::IDLE_LIMIT_KNOWN).then_some(ns);
    let change = Call {
        grow: has(idle_flag::IDLE_GREW),
        old: u32_of(offset_of!(idle_record, change_old_ns))?,
        new: u32_of(offset_of!(idle_record, change_new_ns))?,
    };
    let wake_ns = u64_of(offset_of!(idle_record, wake_ns))?;
    Some(Period {
        cpu: u32_of(offset_of!(idle_record, cpu))?,
        start_ns: u64_of(offset_of!(idle_record, start_ns))?,
        end_ns: u64_of(offset_of!(idle_record, end_ns))?,
        poll_ns: u64_of(offset_of!(idle_record, poll_ns))?,
        halt_ns: u64_of(offset_of!(idle_record, halt_ns))?,
        polled: has(idle_flag::IDLE_POLLED),
        halted: has(idle_flag::IDLE_HALTED),
        told_apart: has(idle_flag::IDLE_RESIDENCY_KNOWN),
        limit_ns: limit(u32_of(offset_of!(idle_record, limit_ns))?),
        limit_next_ns: limit(u32_of(offset_of!(idle_record, limit_next_ns))?),
        change: (change.grow || has(idle_flag::IDLE_SHRANK)).then_some(change),
        wake: wake(has),
        wake_ns: (wake_ns > 0).then_some(wake_ns),
    })
}

fn wake(has: impl Fn(idle_flag) -> bool) -> WakeSource {
    if has(idle_flag::IDLE_WAKE_STORE) || has(idle_flag::IDLE_WAKE_IPI) {
        WakeSource::Ipi
    } else if has(idle_flag::IDLE_WAKE_TIMER) {
        WakeSource::Timer
    } else if has(idle_flag::IDLE_WAKE_DEVICE) {
        WakeSource::Device
    } else {
        WakeSource::Unknown
    }
}

/// Decodes any bytes as a record and reads every fact of it: the door for fuzzing.
#[doc(hidden)]
pub fn fuzz_idle(bytes: &[u8]) -> Option<(Halt, Option<WindowChange>)> {
    let period = decode(bytes)?;
    let halt = period.halt(0, None);
    Some((halt, period.change.map(|call| call.row(&halt))))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::bytes::made_of;

    /// A record as the kernel side writes it; no two fields are equal, so that each is read from its own place.
    fn bytes(flags: &[idle_flag], wake_ns: u64) -> Vec<u8> {
        let longs = [
            (offset_of!(idle_record, start_ns), 1_000_000),
            (offset_of!(idle_record, end_ns), 1_300_000),
            (offset_of!(idle_record, poll_ns), 50_000),
            (offset_of!(idle_record, halt_ns), 250_000),
            (offset_of!(idle_record, wake_ns), wake_ns),
        ];
        let flags = flags.iter().fold(0, |all, flag| all | flag.0);
        let words = [
            (offset_of!(idle_record, cpu), 3),
            (offset_of!(idle_record, limit_ns), 60_000),
            (offset_of!(idle_record, limit_next_ns), 120_000),
            (offset_of!(idle_record, change_old_ns), 70_000),
            (offset_of!(idle_record, change_new_ns), 130_000),
            (offset_of!(idle_record, flags), flags),
        ];
        made_of(SIZE, &longs, &words)
    }

    #[test]
    fn a_record_is_a_period() {
        let bytes = bytes(
            &[
                idle_flag::IDLE_POLLED,
                idle_flag::IDLE_HALTED,
                idle_flag::IDLE_LIMIT_KNOWN,
                idle_flag::IDLE_RESIDENCY_KNOWN,
                idle_flag::IDLE_GREW,
                idle_flag::IDLE_WAKE_TIMER,
            ],
            1_280_000,
        );
        let expected = Period {
            cpu: 3,
            start_ns: 1_000_000,
            end_ns: 1_300_000,
            poll_ns: 50_000,
            halt_ns: 250_000,
            polled: true,
            halted: true,
            told_apart: true,
            limit_ns: Some(60_000),
            limit_next_ns: Some(120_000),
            change: Some(Call {
                grow: true,
                old: 70_000,
                new: 130_000,
            }),
            wake: WakeSource::Timer,
            wake_ns: Some(1_280_000),
        };
        assert_eq!(decode(&bytes), Some(expected));
        assert_eq!(decode(&bytes[..SIZE - 1]), None);
    }

    #[test]
    fn what_is_not_known_is_none_and_a_store_is_an_ipi_that_was_not_sent() {
        let period = decode(&bytes(&[idle_flag::IDLE_WAKE_STORE], 0)).unwrap();
        assert_eq!((period.limit_ns, period.limit_next_ns), (None, None));
        assert_eq!((period.change, period.wake_ns), (None, None));
        assert_eq!((period.wake, period.told_apart), (WakeSource::Ipi, false));
        let shrank = decode(&bytes(&[idle_flag::IDLE_SHRANK], 0)).unwrap();
        assert_eq!(shrank.change.map(|change| change.grow), Some(false));
    }
}
