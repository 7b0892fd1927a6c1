//! Bytes as a real kernel's rings gave them, through every pure part of this source.
//!
//! How the fixture was made, and its expected numbers counted: `tests/fixtures/README.md`.

use haltwise_core::decode::{Fact, Order};
use haltwise_core::event::{Halt, WakeSource, WindowCall};
use haltwise_core::ids::Tid;

use super::fuzz::{EVENTS, SAME_VMM, event, new_decoder};

const PINGPONG: &[u8] = include_bytes!("../../tests/fixtures/pingpong.perf");
const TID: Tid = Tid(25368);

fn records(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let mut records = Vec::new();
    while let [_cpu, kind, low, high, rest @ ..] = bytes {
        let (body, rest) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])));
        records.push((u32::from(*kind), body));
        bytes = rest;
    }
    records
}

/// Every record through parsing, ordering and decoding; `None` bodies are counted.
fn halts(records: &[(u32, &[u8])]) -> (Vec<Halt>, usize) {
    let events = EVENTS.as_ref().unwrap();
    let mut order = Order::default();
    let mut unreadable = 0;
    for (kind, body) in records {
        match event(events, *kind, body, SAME_VMM) {
            Some(event) => order.push(event.time_ns, event),
            None => unreadable += 1,
        }
    }
    // From Linux 6.1 on, as the fixture.
    let mut decoder = new_decoder(&[]);
    let facts = order.finish().into_iter().filter_map(|e| decoder.push(&e));
    let halts = facts.filter_map(|fact| match fact {
        Fact::Halt(halt) => Some(halt),
        Fact::Window(_) => None,
    });
    (halts.collect(), unreadable)
}

#[test]
fn halts_of_a_real_guest() {
    let (halts, unreadable) = halts(&records(PINGPONG));
    assert_eq!((halts.len(), unreadable), (109, 0));
    assert!(halts.iter().all(|h| h.tid == TID && h.waited && h.valid));
    let sum: u64 = halts.iter().map(|h| h.halt_ns).sum();
    assert_eq!(sum, 15_390_452);
    let shrunk = halts.iter().filter(|h| h.change == WindowCall::Shrink);
    assert_eq!(shrunk.count(), 1);
    // The guest was woken by its VMM each time; the host needed some microseconds for it.
    for halt in &halts {
        let latency = halt.wake_latency_ns.unwrap();
        assert!((5_000..30_000).contains(&latency), "{halt:?}");
        assert_eq!(halt.wake, WakeSource::Device);
    }
    // The window is known from the one call on: it was 160 us and every poll was cut.
    let last = halts.last().unwrap();
    assert_eq!(
        (last.window_ns, last.window_next_ns),
        (Some(160_000), Some(80_000))
    );
    assert!(last.is_preempted() && last.poll_ns.unwrap() < 2_000);
}
