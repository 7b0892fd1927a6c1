//! With each backend every frame comes back as it was sent, and exits are those of the driver's registers.

use super::*;
use crate::experiment::test::trials::Trials;

/// Registers that the driver's initialization writes, without notifications.
const INITIALIZES: u64 = 19;

#[test]
fn all_backends_carry_the_same_and_none_exits_to_send() {
    let Some(trials) = Trials::here() else {
        return;
    };
    for variant in 0..BACKENDS.len() {
        // Less than a window, and more: the rings' indices go round too.
        for rounds in [1, 40] {
            let exchanged = exchange(&trials.of(variant), Some(rounds)).unwrap();
            assert!(exchanged.is_correct().unwrap(), "{variant}, {rounds}");
            let ended = &exchanged.ended;
            assert!((rounds..rounds + net::MOST).contains(&ended.rounds));
            // An interrupt is looked up and acknowledged.
            let registers = INITIALIZES + 2 * u64::from(ended.interrupts);
            assert_eq!(ended.exits_to_vmm(), registers, "{variant}, {rounds}");
            assert_eq!(ended.counts.halts, u64::from(ended.interrupts));
        }
    }
}

#[test]
fn an_echo_that_was_changed_on_its_way_is_seen() {
    let Some(trials) = Trials::here() else {
        return;
    };
    let exchanged = exchange(&trials.of(3), Some(20)).unwrap();
    let memory = &exchanged.ended.vm.memory;
    // A byte of the first buffer's header, of the addresses, of the filler, and its last.
    for offset in [0_u32, 12, 12 + 40, 12 + 1513] {
        let at = haltwise_lab::memory::TABLE + 0x1000 + offset;
        let mut byte = [0];
        memory.read(at, &mut byte).unwrap();
        memory.write(at, &[!byte[0]]).unwrap();
        assert!(!exchanged.is_correct().unwrap(), "{offset}");
        memory.write(at, &byte).unwrap();
    }
    assert!(exchanged.is_correct().unwrap());
}
