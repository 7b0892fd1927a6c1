//! Exact counts of the experiment's exits and interrupts.

use super::*;
use crate::experiment::test::trials::Trials;
use crate::experiment::witness::userspace;

#[test]
fn only_the_controllers_own_exits_go_away() {
    let Some(trials) = Trials::here() else {
        return;
    };
    let rounds = 500;
    for variant in 0..4 {
        let ended = handle(&trials.of(variant), Some(rounds)).unwrap();
        assert_eq!((ended.rounds, ended.interrupts), (rounds, rounds));
        let ports = userspace(&ended.counts)["KVM_EXIT_IO"];
        // The last exit is the guest's end; initialization takes ten.
        let (accesses, initialization) = if variant % 2 == 0 { (4, 10) } else { (0, 0) };
        assert_eq!(
            ports,
            u64::from(rounds * (1 + accesses) + initialization + 1)
        );
    }
}
