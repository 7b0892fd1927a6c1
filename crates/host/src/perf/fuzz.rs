//! Entry point for fuzzing this source: its record parser on any bytes, through to halts.
//!
//! Not part of the library's interface.

use std::sync::LazyLock;

use haltwise_core::decode::waker::{self, Kin};
use haltwise_core::decode::{Decoder, Event, Fact, Order, What};
use haltwise_core::fuzz::must_be_sound;
use haltwise_core::ids::Tid;
use haltwise_core::kvm::rule::Clamp;

use super::events::{Events, SeenWhat};
use super::ring::{self, Record};
use crate::tracefs::EventFormat;

pub(super) const FORMATS: [&str; 4] = [
    include_str!("../../tests/fixtures/kvm_vcpu_wakeup.format"),
    include_str!("../../tests/fixtures/kvm_halt_poll_ns.format"),
    include_str!("../../tests/fixtures/sched_waking.format"),
    include_str!("../../tests/fixtures/sched_switch.format"),
];

pub(super) static EVENTS: LazyLock<Option<Events>> = LazyLock::new(|| {
    let [wakeup, others @ ..] = FORMATS.map(|text| EventFormat::parse(text).ok());
    Events::of(&wakeup?, others.each_ref().map(Option::as_ref)).ok()
});

/// The bits of a record's first byte: the CPU it came from, and that a round of reading ends.
const CPU_BITS: u8 = 0x7f;
const ROUND_ENDS: u8 = 0x80;
/// The bit that says that a vCPU was woken by its own VMM.
pub(super) const SAME_VMM: u8 = 2;

/// Reads bytes as records of perf rings and puts them through every pure part of this source; gives
/// how many halts come out. A record is framed as in the recorded fixture: CPU, type, length of the
/// body in two bytes, body.
///
/// # Panics
/// If a halt contradicts itself.
pub fn perf_record(bytes: &[u8]) -> u64 {
    let Some(events) = EVENTS.as_ref() else {
        return 0;
    };
    let mut order = Order::default();
    let mut decoder = new_decoder(bytes);
    let mut halts = 0;
    let mut rest = bytes;
    while let [cpu, kind, low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (body, following) = after.split_at(length);
        rest = following;
        let event = event(events, u32::from(*kind), body, cpu & CPU_BITS);
        let time_ns = event.map_or(0, |event| event.time_ns);
        if let Some(event) = event {
            order.push(time_ns, event);
        }
        if cpu & ROUND_ENDS != 0 {
            halts += fold(&mut decoder, order.end_round(time_ns));
        }
    }
    halts + fold(&mut decoder, order.finish())
}

/// A record in the decoder's words; `None` if it cannot be read.
pub(super) fn event(events: &Events, kind: u32, body: &[u8], bits: u8) -> Option<Event> {
    let (time_ns, raw) = match ring::parse(kind, body)? {
        Record::Sample { time_ns, raw, .. } => (time_ns, raw),
        Record::Lost { time_ns, .. } => {
            let what = What::Gap;
            return Some(Event { time_ns, what });
        }
        Record::Other => return None,
    };
    let what = match events.parse(raw)? {
        SeenWhat::Whole(what) => what,
        SeenWhat::Waking { tid, waker } => {
            let kin = Kin {
                vcpu_of_same_vm: bits & 1 != 0,
                same_vmm: bits & SAME_VMM != 0,
                comm: ["", "kvm-pit/1", "vhost-1", "ksoftirqd/0"][usize::from(bits >> 2 & 3)],
                hard_interrupts_are_timers: bits & 16 != 0,
            };
            let source = waker::source(waker, kin);
            What::Waking { tid, source }
        }
    };
    Some(Event { time_ns, what })
}

/// A decoder under rules that the length of the input chooses, which knows the fixture's thread.
pub(super) fn new_decoder(bytes: &[u8]) -> Decoder {
    let is_even = bytes.len().is_multiple_of(2);
    let mut decoder = Decoder::new(if is_even {
        Clamp::AtEntry
    } else {
        Clamp::Never
    });
    decoder.set_param(Some(200_000));
    decoder.watch(Tid(25_368), 0);
    decoder
}

fn fold(decoder: &mut Decoder, events: Vec<Event>) -> u64 {
    let mut halts = 0;
    for event in events {
        match decoder.push(&event) {
            Some(Fact::Halt(halt)) => {
                must_be_sound(&halt, event.time_ns);
                halts += 1;
            }
            Some(Fact::Window(change)) => assert_eq!(change.time_ns, event.time_ns),
            None => {}
        }
    }
    halts
}
