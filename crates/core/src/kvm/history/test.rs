//! The behaviours reported on the list.

use super::*;
use crate::kvm::{Arch, Knobs, Observed, Rule};

const MS: u64 = 1_000_000;

/// The windows after each of so many halts.
fn walk(halts: usize, next: impl Fn(u32) -> u32) -> Vec<u32> {
    let step = |window: &u32| Some(next(*window));
    std::iter::successors(Some(0), step)
        .take(halts + 1)
        .collect()
}

#[test]
fn v3_walks_an_idle_vcpu_up_and_drops_it() {
    let idle = walk(6, |window| Proposal::REPORTED.v3(window, 1_000 * MS));
    assert_eq!(
        idle,
        [0, 500_000, 1_000_000, 2_000_000, 4_000_000, 0, 500_000]
    );
}

#[test]
fn v3_polls_an_idle_vcpu_and_the_rule_that_was_taken_does_not() {
    let burnt: u64 = walk(4, |window| Proposal::REPORTED.v3(window, 1_000 * MS))
        .iter()
        .map(|window| u64::from(*window))
        .sum();
    assert_eq!(burnt, 7_500_000, "of each round of five halts");

    let version = "4.3".parse().unwrap();
    let knobs = Knobs::defaults(version, Arch::X86);
    let rule = Rule::of(version, Arch::X86);
    let halt = Observed::valid(1_000 * MS);
    let taken = walk(6, |window| {
        rule.after(&knobs, knobs.halt_poll_ns, window, halt).window
    });
    assert_eq!(taken, [0; 7]);
}

#[test]
fn v3_keeps_a_window_that_was_long_enough() {
    for (window, halt_ns, expected) in [
        (0, 0, 0),
        (500_000, 500_000, 500_000),
        (500_000, 500_001, 1_000_000),
        (4_000_000, 4_000_000, 4_000_000),
        (4_000_000, 4_000_001, 0),
        (3_000_000, 3_000_001, 0),
    ] {
        assert_eq!(
            Proposal::REPORTED.v3(window, halt_ns),
            expected,
            "{window} {halt_ns}"
        );
    }
}

#[test]
fn v4_ends_at_the_ceiling_and_stays() {
    let proposal = Proposal {
        grow_start: 10_000,
        grow: 2,
        ceiling: 500_000,
    };
    let windows = walk(8, |window| proposal.v4(window, true));
    let climb = [
        0, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 500_000, 500_000,
    ];
    assert_eq!(windows, climb);
    assert_eq!(proposal.v4(20_000, false), 20_000);
    assert_eq!(proposal.v4(500_000, false), 500_000);
}

#[test]
fn toggling_knows_two_windows() {
    let proposal = Proposal {
        ceiling: 5,
        ..Proposal::REPORTED
    };
    for (window, halt_ns, expected) in [
        (0, 0, 0),
        (0, 1, 5),
        (0, 4, 5),
        (0, 5, 0),
        (0, 6, 0),
        (5, 0, 5),
        (5, 5, 5),
        (5, 6, 0),
        (5, u64::MAX, 0),
    ] {
        assert_eq!(
            proposal.toggle(window, halt_ns),
            expected,
            "{window} {halt_ns}"
        );
    }
}

#[test]
fn growth_of_any_size_is_cut() {
    let proposal = Proposal {
        grow_start: u32::MAX,
        grow: u32::MAX,
        ceiling: 7,
    };
    assert_eq!(proposal.v4(0, true), 7);
    assert_eq!(proposal.v4(u32::MAX, true), 7);
    assert_eq!(proposal.v3(0, 1), 0);
    assert_eq!(proposal.v3(u32::MAX, u64::MAX), 0);
}
