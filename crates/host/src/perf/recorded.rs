//! Bytes as a real kernel's rings gave them, through every pure part of this source.
//!
//! How the fixture was made, and its expected numbers counted: `tests/fixtures/README.md`.

use std::fs;

use haltwise_core::decode::{Decoder, Event, Fact, Order, Rules, What};
use haltwise_core::event::{Halt, WakeSource, WindowCall};
use haltwise_core::ids::Tid;

use super::events::{Events, SeenWhat};
use super::record::{self, Record};
use crate::root::Root;
use crate::tracefs::Tracefs;

const PINGPONG: &[u8] = include_bytes!("../../tests/fixtures/pingpong.perf");
const TID: Tid = Tid(25368);

fn events() -> Events {
    let dir = tempfile::tempdir().unwrap();
    for (event, text) in [
        (
            "kvm/kvm_vcpu_wakeup",
            include_str!("../../tests/fixtures/kvm_vcpu_wakeup.format"),
        ),
        (
            "kvm/kvm_halt_poll_ns",
            include_str!("../../tests/fixtures/kvm_halt_poll_ns.format"),
        ),
        (
            "sched/sched_waking",
            include_str!("../../tests/fixtures/sched_waking.format"),
        ),
        (
            "sched/sched_switch",
            include_str!("../../tests/fixtures/sched_switch.format"),
        ),
    ] {
        let folder = dir.path().join("sys/kernel/tracing/events").join(event);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("format"), text).unwrap();
    }
    let tracefs = Tracefs::find(&Root::at(dir.path())).unwrap();
    Events::load(&tracefs).unwrap().0
}

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
    let events = events();
    let mut order = Order::default();
    let mut unreadable = 0;
    for (kind, body) in records {
        let Some(Record::Sample { time_ns, raw, .. }) = record::parse(*kind, body) else {
            unreadable += 1;
            continue;
        };
        let what = match events.parse(raw) {
            Some(SeenWhat::Whole(what)) => what,
            Some(SeenWhat::Waking { tid, .. }) => {
                let source = WakeSource::Device;
                What::Waking { tid, source }
            }
            None => {
                unreadable += 1;
                continue;
            }
        };
        order.push(time_ns, Event { time_ns, what });
    }
    let mut decoder = Decoder::new(Rules {
        clamps_at_entry: true,
    });
    decoder.set_param(Some(200_000));
    decoder.watch(TID, 0);
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

#[test]
fn damaged_records_are_refused_one_by_one() {
    let whole = records(PINGPONG);
    for cut in [0, 1, 7, 19, 20, 27, 40] {
        let damaged: Vec<_> = whole
            .iter()
            .map(|(kind, b)| (*kind, &b[..cut.min(b.len())]))
            .collect();
        assert_eq!(halts(&damaged), (Vec::new(), whole.len()));
    }
}
