//! Every block comes back and lies where it belongs, whoever serves it; only one of both exits.

use std::os::fd::AsFd;

use haltwise_core::units::Nanos;

use super::*;
use crate::event::Event;

#[test]
fn all_store_the_same_and_only_one_exits_for_a_request() {
    if crate::vm::open().is_err() {
        return;
    }
    let interrupt = Event::new().unwrap();
    // Less than the disk has blocks, and more: the ring's indices go round too.
    let variants = if why_no_ring().is_some() { 2 } else { 3 };
    for rounds in [1, 7, 70] {
        for variant in 0..variants {
            let trial = Trial {
                variant,
                round: 0,
                // Its rounds end it.
                length: Nanos(60_000_000_000),
                seed: 0,
                cpus: &[0],
                interrupt: interrupt.as_fd(),
            };
            let stored = store(&trial, Some(rounds)).unwrap();
            assert!(stored.is_correct().unwrap(), "{variant}, {rounds}");
            assert_eq!(stored.ended.rounds, rounds);
            let requests = u64::from(2 * rounds);
            assert_eq!(stored.device.lock().served.done, requests);
            // The driver's initialization writes eleven registers.
            let expected = 11 + if variant == 0 { requests } else { 0 };
            assert_eq!(stored.ended.exits_to_vmm(), expected);
        }
    }
}
