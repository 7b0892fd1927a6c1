//! Tests of which events become a period of an idle CPU, and which do not.

use proptest::prelude::*;

use super::*;
use crate::event::WindowCall;

const POLL: Did = Did::Enter { polls: true };
const HALT: Did = Did::Enter { polls: false };

fn change(grow: bool, old: u32, new: u32) -> Did {
    Did::Adjust(Call { grow, old, new })
}

fn event((time_ns, what): (u64, Did)) -> IdleEvent {
    let cpu = 1;
    IdleEvent { time_ns, cpu, what }
}

/// The periods of CPU 1 that these events make.
fn periods(events: &[(u64, Did)]) -> Vec<Period> {
    let mut decoder = IdleDecoder::default();
    let events = events.iter().copied().map(event);
    events.filter_map(|event| decoder.push(&event)).collect()
}

#[test]
fn a_poll_that_ends_by_its_limit_and_the_halt_after_it_are_one_period() {
    let given = periods(&[
        (100, POLL),
        (150, Did::Leave),
        (155, HALT),
        (190, Did::Send),
        (200, Did::Interrupt(WakeSource::Ipi)),
        (205, Did::Leave),
        (206, change(true, 50, 100)),
        (210, Did::Switch),
        (300, POLL),
    ]);
    let [period] = given[..] else {
        panic!("{given:?}")
    };
    let halt = period.halt(0, Some(200));
    assert_eq!((period.cpu, halt.start_ns, period.end_ns), (1, 100, 205));
    assert_eq!((halt.poll_ns, halt.halt_ns), (Some(50), 100));
    assert_eq!((halt.polled, halt.waited), (Some(true), true));
    // Before the first call of grow or shrink only that call says what the limit was.
    assert_eq!((halt.window_ns, halt.window_next_ns), (Some(50), Some(100)));
    let woken = (halt.change, halt.wake, halt.wake_latency_ns);
    assert_eq!(woken, (WindowCall::Grow, WakeSource::Ipi, Some(15)));
}

#[test]
fn a_store_that_a_poll_sees_is_an_ipi_that_was_not_sent() {
    // The waker tells of it after it: here when the poll is over.
    for stored_at in [140, 152] {
        let mut events = vec![
            (100, POLL),
            (stored_at, Did::Store),
            (150, Did::Leave),
            (155, Did::Switch),
            (200, POLL),
        ];
        events.sort_by_key(|event| event.0);
        let given = periods(&events);
        assert_eq!(given[0].wake, WakeSource::Ipi, "{stored_at}");
        assert_eq!(given[0].wake_ns, Some(stored_at.min(150)));
    }
    // One of a time before the state does not end it.
    let given = periods(&[
        (100, HALT),
        (150, Did::Leave),
        (151, Did::Store),
        (155, Did::Switch),
        (200, HALT),
        (250, Did::Leave),
        (260, HALT),
    ]);
    assert_eq!(given[0].wake, WakeSource::Ipi);
    assert_eq!(given[1].wake, WakeSource::Unknown);
}

#[test]
fn a_halt_ends_by_its_first_interrupt_and_a_poll_by_its_last() {
    let by = |state| {
        let given = periods(&[
            (100, state),
            (110, Did::Interrupt(WakeSource::Device)),
            (120, Did::Interrupt(WakeSource::Timer)),
            (121, Did::Expire { due_ns: 118 }),
            (122, Did::Expire { due_ns: 119 }),
            (130, Did::Leave),
            (131, Did::Switch),
            (140, HALT),
        ]);
        (given[0].wake, given[0].wake_ns)
    };
    assert_eq!(by(HALT), (WakeSource::Device, None));
    assert_eq!(by(POLL), (WakeSource::Timer, Some(118)));
    let given = periods(&[
        (100, HALT),
        (120, Did::Interrupt(WakeSource::Timer)),
        (121, Did::Expire { due_ns: 115 }),
        (125, Did::Leave),
        (140, HALT),
    ]);
    let latency_ns = given[0].halt(0, None).wake_latency_ns;
    assert_eq!(latency_ns, Some(10), "from when the timer was due");
}

#[test]
fn nothing_is_known_of_a_state_that_was_entered_before_or_never_left() {
    assert_eq!(periods(&[(10, Did::Leave), (20, change(true, 1, 2))]), []);
    assert_eq!(periods(&[(10, HALT), (20, HALT)]), []);
    let mut decoder = IdleDecoder::default();
    for did in [(10, HALT), (20, Did::Leave)] {
        decoder.push(&event(did));
    }
    decoder.forget();
    assert_eq!(decoder.push(&event((30, HALT))), None);
}

/// Actions that a CPU may take between two states, by number.
fn between(choice: u8) -> Option<Did> {
    match choice {
        0 => Some(Did::Switch),
        1 => Some(Did::Store),
        2 => Some(Did::Interrupt(WakeSource::Timer)),
        3 => Some(Did::Interrupt(WakeSource::Device)),
        4 => Some(Did::Send),
        5 => Some(change(true, 10, 20)),
        6 => Some(Did::Expire { due_ns: 5 }),
        _ => None,
    }
}

proptest! {
    /// Every state that was entered and left, but for the last, is in exactly one period, with all of its time.
    #[test]
    fn periods_hold_every_state_once(
        states in prop::collection::vec((any::<bool>(), 1..1_000_u64, 0..9_u8, 0..9_u8), 1..60),
    ) {
        let mut now = 0;
        let mut events = Vec::new();
        let mut entered = [0_u64; 2];
        let mut time = [0_u64; 2];
        for (polls, ns, during, after) in states {
            now += 1;
            events.push((now, Did::Enter { polls }));
            events.extend(between(during).filter(|did| *did != Did::Switch).map(|did| (now, did)));
            now += ns;
            events.push((now, Did::Leave));
            events.extend(between(after).map(|did| (now, did)));
            entered[usize::from(polls)] += 1;
            time[usize::from(polls)] += ns;
        }
        events.push((now + 1, Did::Switch));
        events.push((now + 2, HALT));
        let given = periods(&events);
        let polled = given.iter().filter(|period| period.polled).count() as u64;
        let halted = given.iter().filter(|period| period.halted).count() as u64;
        prop_assert_eq!([halted, polled], entered);
        let sum = |of: fn(&Period) -> u64| given.iter().map(of).sum::<u64>();
        prop_assert_eq!([sum(|it| it.halt_ns), sum(|it| it.poll_ns)], time);
        for (one, next) in given.iter().zip(given.iter().skip(1)) {
            prop_assert!(one.end_ns <= next.start_ns);
        }
    }
}

#[test]
fn a_residency_that_cpuidle_did_not_keep_leaves_the_time_polled_unknown() {
    let period = |polled, halted| Period {
        cpu: 3,
        start_ns: 1_000_000,
        end_ns: 1_300_000,
        poll_ns: u64::from(polled) * 50_000,
        halt_ns: u64::from(halted) * 250_000,
        polled,
        halted,
        told_apart: false,
        limit_ns: Some(50_000),
        limit_next_ns: Some(50_000),
        change: None,
        wake: WakeSource::Timer,
        wake_ns: Some(1_280_000),
    };
    let poll_ns = |polled, halted| period(polled, halted).halt(0, None).poll_ns;
    assert_eq!(poll_ns(true, true), None);
    assert_eq!(poll_ns(true, false), Some(50_000));
    assert_eq!(poll_ns(false, true), Some(0));
}
