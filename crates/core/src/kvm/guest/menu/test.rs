//! When menu polls, kernel by kernel.

use proptest::prelude::*;

use super::*;

const KERNELS: [(u32, u32); 5] = [(5, 10), (6, 1), (6, 6), (6, 12), (7, 0)];

fn menu(major: u32, minor: u32) -> Menu {
    Menu::new(Rule::of(Version::new(major, minor)), Driver::HALTPOLL)
}

fn halted(residency_ns: u64) -> Ended {
    Ended {
        state: State::Halt,
        residency_ns,
        timed_out: false,
    }
}

/// Idle periods of one length, without a timer; gives what is chosen after them.
fn after(menu: &mut Menu, residency_ns: u64, periods: usize) -> State {
    for _ in 0..periods {
        menu.select(None);
        menu.reflect(&halted(residency_ns));
    }
    menu.select(None)
}

#[test]
fn a_timer_that_is_due_at_once_is_polled_for() {
    for (major, minor) in KERNELS {
        let mut menu = menu(major, minor);
        after(&mut menu, 200_000, 20);
        assert_eq!(menu.select(Some(999)), State::Poll, "{major}.{minor}");
        assert_eq!(menu.select(Some(1_000)), State::Halt, "{major}.{minor}");
    }
}

#[test]
fn periods_of_less_than_a_microsecond_are_polled_through_by_some_kernels() {
    for ((major, minor), state) in [
        ((5, 10), State::Poll),
        ((6, 1), State::Poll),
        // Lengths of 0 us are no typical length there, and the corrected time until the timer is 3 us.
        ((6, 6), State::Halt),
        ((6, 12), State::Halt),
    ] {
        let found = after(&mut menu(major, minor), 900, 60);
        assert_eq!(found, state, "{major}.{minor}");
    }
}

#[test]
fn an_outlier_does_not_hide_what_is_typical() {
    let mut menu = menu(6, 12);
    after(&mut menu, 101_000, 7);
    menu.select(None);
    menu.reflect(&halted(3_000_000));
    assert_eq!(menu.typical_us(), Some(100));
    menu.intervals = [100, 100, 100, 900, 900, 900, 20, 20];
    assert_eq!(menu.typical_us(), None);
}

#[test]
fn newer_kernels_leave_out_the_shortest_too() {
    let intervals = [2, 600, 600, 600, 600, 600, 600, 600];
    // Without the longest, all but one are gone, and one is about like itself.
    for ((major, minor), typical) in [((6, 12), Some(2)), ((6, 15), Some(600))] {
        let mut menu = menu(major, minor);
        menu.intervals = intervals;
        assert_eq!(menu.typical_us(), typical, "{major}.{minor}");
    }
}

proptest! {
    /// Where idle periods last two microseconds and no timer is due within one, HLT is chosen once eight are known.
    #[test]
    fn it_halts_wherever_hlt_is_worth_it(
        kernel in prop::sample::select(KERNELS.to_vec()),
        periods in prop::collection::vec((4_000_u64..100_000_000, prop::option::of(1_000_000_u64..1_000_000_000)), 9..200),
    ) {
        let mut menu = menu(kernel.0, kernel.1);
        for (number, (residency_ns, timer_ns)) in periods.into_iter().enumerate() {
            let state = menu.select(timer_ns);
            prop_assert!(number < 8 || state == State::Halt);
            menu.reflect(&halted(residency_ns));
        }
    }
}
