//! Exact counts of the experiment's exits and interrupts.

use std::os::fd::AsFd;

use haltwise_core::units::Nanos;

use super::*;
use crate::event::Event;

#[test]
fn only_the_controllers_own_exits_go_away() {
    if crate::vm::open().is_err() {
        return;
    }
    let interrupt = Event::new().unwrap();
    let rounds = 500;
    for variant in 0..4 {
        let trial = Trial {
            variant,
            round: 0,
            // Its rounds end it.
            length: Nanos(60_000_000_000),
            seed: 0,
            cpus: &[0],
            interrupt: interrupt.as_fd(),
        };
        let ended = handle(&trial, Some(rounds)).unwrap();
        assert_eq!((ended.rounds, ended.interrupts), (rounds, rounds));
        let ports = ended.counts.userspace["KVM_EXIT_IO"];
        // The last exit is the guest's end; initialization takes ten.
        let accesses = if variant % 2 == 0 {
            pic_driver::PIC_ACCESSES
        } else {
            0
        };
        let initialization = if variant % 2 == 0 { 10 } else { 0 };
        assert_eq!(
            ports,
            u64::from(rounds * (1 + accesses) + initialization + 1)
        );
    }
}
