//! When teo polls, kernel by kernel.

use proptest::prelude::*;

use super::*;

const KERNELS: [(u32, u32); 3] = [(6, 1), (6, 6), (6, 12)];

fn teo(major: u32, minor: u32) -> Teo {
    let rule = Rule::of(Version::new(major, minor)).unwrap();
    Teo::new(rule, Driver::HALTPOLL)
}

/// Idle periods of one length; gives what is chosen after each.
fn choices(teo: &mut Teo, timer_ns: Option<u64>, residency_ns: u64, periods: usize) -> Vec<State> {
    let one = |_| {
        let state = teo.select(timer_ns);
        teo.reflect(&Ended {
            state,
            residency_ns,
            timed_out: false,
        });
        teo.select(timer_ns)
    };
    (0..periods).map(one).collect()
}

#[test]
fn what_is_not_read_is_refused() {
    assert_eq!(Rule::of(Version::new(5, 10)), None);
}

#[test]
fn a_timer_that_is_due_at_once_is_polled_for() {
    for (major, minor) in KERNELS {
        let mut teo = teo(major, minor);
        choices(&mut teo, None, 200_000, 20);
        assert_eq!(teo.select(Some(999)), State::Poll, "{major}.{minor}");
        assert_eq!(teo.select(Some(1_000)), State::Halt, "{major}.{minor}");
    }
}

#[test]
fn early_wakes_turn_it_to_polling_but_where_a_used_cpu_halts() {
    use State::{Halt, Poll};
    for ((major, minor), last) in [((6, 1), Poll), ((6, 6), Halt), ((6, 12), Poll)] {
        let mut teo = teo(major, minor);
        choices(&mut teo, None, 200_000, 30);
        // And back.
        let lasts = [500, 200_000].map(|ns| choices(&mut teo, None, ns, 20).pop());
        assert_eq!(lasts, [last, Halt].map(Some), "{major}.{minor}");
    }
}

#[test]
fn five_early_wakes_of_nine_are_enough_up_to_6_2() {
    for ((major, minor), needed) in [((6, 1), 5), ((6, 12), 6)] {
        let mut teo = teo(major, minor);
        choices(&mut teo, None, 200_000, 60);
        let polls = choices(&mut teo, None, 500, 20);
        let first = polls.iter().position(|&state| state == State::Poll);
        assert_eq!(first, Some(needed - 1), "{major}.{minor}");
    }
}

proptest! {
    /// Where idle periods last two microseconds and no timer is due within one, HLT is chosen.
    #[test]
    fn it_halts_wherever_hlt_is_worth_it(
        kernel in prop::sample::select(KERNELS.to_vec()),
        periods in prop::collection::vec((2_000_u64..100_000_000, prop::option::of(1_000_u64..1_000_000_000)), 1..200),
    ) {
        let mut teo = teo(kernel.0, kernel.1);
        for (residency_ns, timer_ns) in periods {
            prop_assert_eq!(teo.select(timer_ns), State::Halt);
            teo.reflect(&Ended { state: State::Halt, residency_ns, timed_out: false });
        }
    }
}
