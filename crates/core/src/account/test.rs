//! Boundary tables of the account. Its laws are in `tests/account_laws.rs`.

use super::ledger::Ledger;
use super::within::Interval;
use super::*;
use crate::event::{HostSample, Paused, Vm};

/// The example of [`Halt`]: window 50 us, interrupt after 70 us, awake 30 us later.
fn slept() -> Halt {
    Halt {
        window_next_ns: Some(100_000),
        ceiling_ns: Some(200_000),
        ceiling_source: CeilingSource::Param,
        wake: WakeSource::Device,
        ..Halt::under(50_000, 1_000, 70_000, 30_000)
    }
}

/// A poll that a timer ended after 20 us.
fn caught() -> Halt {
    Halt {
        start_ns: 201_000,
        halt_ns: 20_000,
        waited: false,
        poll_ns: Some(20_000),
        wake_latency_ns: Some(0),
        wake: WakeSource::Timer,
        ..slept()
    }
}

#[test]
fn a_pause_counts_as_far_as_the_vm_was_there() {
    let watched = Interval {
        start_ns: 100,
        end_ns: 200,
    };
    let vm = |paused, to_ns| Vm {
        to_ns,
        paused,
        ..Vm::default()
    };
    for (over_ns, from_ns, to_ns, expected) in [
        (0, None, None, 0),
        (0, Some(100), None, 100),
        (0, Some(0), None, 100),
        (30, Some(150), None, 80),
        (30, Some(150), Some(160), 40),
        (30, Some(250), None, 30),
        (u64::MAX, Some(0), None, 100),
    ] {
        let paused = Some(Paused { over_ns, from_ns });
        let found = watched.paused_of(&vm(paused, to_ns));
        assert_eq!(found, Some(expected), "{paused:?} {to_ns:?}");
    }
    assert_eq!(watched.paused_of(&vm(None, None)), None, "not known");
}

#[test]
fn a_halt_that_crosses_an_end_counts_up_to_there() {
    let mut account = Account::default();
    account.halt(&slept());
    account.halt(&caught());
    let within = |start_ns, end_ns| account.within(Interval { start_ns, end_ns });
    assert_eq!(within(0, 1_000_000), account.parts);
    // The first halt, from 1 to 101 us: 50 us of poll, 20 us of sleep, 30 us of wake-up.
    let later = within(61_000, 1_000_000);
    assert_eq!((later.poll_fail_ns, later.sleep_ns), (0, 10_000));
    assert_eq!(later.wake_latency_ns, 30_000);
    let sooner = within(0, 211_000);
    let polls = (sooner.poll_success_ns, sooner.poll_fail_ns);
    assert_eq!(polls, (10_000, 50_000));
    // One halt may cross both ends.
    account = Account::default();
    account.halt(&slept());
    let (start_ns, end_ns) = (41_000, 81_000);
    let both = account.within(Interval { start_ns, end_ns });
    let parts = [both.poll_fail_ns, both.sleep_ns, both.wake_latency_ns];
    assert_eq!(parts, [10_000, 20_000, 10_000]);
}

#[test]
fn counts_of_a_kernel_that_cannot_say_leave_it_unknown() {
    let mut halt_ns = LogHist::default();
    halt_ns.record(100_000);
    let mut account = Account::default();
    account.counts(&HaltCounts {
        halts: 1,
        waited: 1,
        halt_ns,
        ..HaltCounts::default()
    });
    assert_eq!(account.parts.unknown_ns, 100_000);
    assert_eq!((account.poll_ns(), account.not_polled()), (None, None));
    assert_eq!(account.unknown.wake_latency_ns, 1);
    assert_eq!(account.window_now.value(), None, "counts know no window");
    assert_eq!(account.unknown.window_ns, 1);
}

#[test]
fn an_older_row_that_one_halt_left_without_counts_of_polls_has_those_of_the_others() {
    let mut row = HaltCounts {
        halts: 10,
        ..HaltCounts::default()
    };
    for n in 0..10 {
        row.halt_ns.record(30_000);
        if n < 6 {
            row.poll_success_ns.record(30_000);
        }
    }
    let mut account = Account::default();
    account.counts(&row);
    assert_eq!((account.poll_known, account.polled), (9, 6));
    assert_eq!(account.unknown.poll_ns, 1);
    assert_eq!(account.parts.poll_success_ns, 180_000);
    assert_eq!(account.poll_ns(), Some(180_000));
}

/// Woken before it slept, in a guest that disabled host polling while it had a window.
#[test]
fn a_halt_that_was_turned_back_is_no_poll_in_full_and_no_sleep_in_counts() {
    let turned_back = Halt {
        halt_ns: 900,
        window_ns: Some(50_000),
        poll_ns: Some(0),
        polled: Some(false),
        wake_latency_ns: Some(0),
        ..Halt::default()
    };
    let mut full = Account::default();
    full.halt(&turned_back);
    assert_eq!((full.poll_known, full.polled), (1, 0));
    let mut row = HaltCounts {
        halts: 1,
        poll_known: Some(1),
        polled: Some(0),
        successful_polls: Some(0),
        turned_back_ns: Some(900),
        ..HaltCounts::default()
    };
    row.halt_ns.record(900);
    row.gap_ns.record(900);
    let mut counts = Account::default();
    counts.counts(&row);
    assert_eq!(counts.parts, full.parts);
    assert_eq!(counts.parts.turned_back_ns, 900);
}

#[test]
fn steal_is_of_all_cpu_time_and_unknown_where_a_sample_lacks_it() {
    let sample = |time_ns, busy_ns, total_ns, steal_ns| HostSample {
        time_ns,
        cpus: 4,
        busy_ns,
        total_ns,
        steal_ns,
        ..HostSample::default()
    };
    let between = |first: HostSample, last: HostSample| {
        let mut ledger = Ledger::default();
        for one in [first, last] {
            ledger.host(&one);
        }
        ledger.host
    };
    let begin = sample(0, 100, 1_000, Some(40));
    let used = between(begin, sample(100, 200, 1_400, Some(80)));
    assert_eq!((used.steal(), used.busy_cpus()), (Some(0.1), Some(1.0)));
    assert_eq!(between(begin, sample(100, 200, 1_400, None)).steal(), None);
    assert_eq!(between(begin, begin).steal(), None);
}
