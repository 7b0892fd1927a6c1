//! Rules for a guest that recorded itself.

use super::*;
use crate::explain::in_guest::{InGuest, MOST_STEAL, RULES as OF_GUEST};
use crate::kvm::guest::Params;

/// Some ten microseconds asleep, a wake-up of thirty.
const SHORT: Load = LOAD.gap_ns(10_000).latency_ns(30_000).wake(WakeSource::Ipi);

/// Polls of 200 us that end by their limit.
const FAILS: Load = CATCHES.gap_ns(500_000).window_ns(200_000);

/// Polls of 600 us that catch their wake.
const CATCHES: Load = LOAD
    .gap_ns(600_000)
    .window_ns(700_000)
    .wake(WakeSource::Ipi);

fn of(load: Load, inside: InGuest) -> Bench {
    Bench {
        in_guest: Some(inside),
        ..calm(load)
    }
}

fn haltpoll() -> InGuest {
    InGuest {
        params: Some(Params::default()),
        stolen_of_wanted: Some(0.0),
    }
}

fn told(load: Load, advised: Advised) -> Bench {
    let mut bench = of(load, haltpoll());
    bench.advised = advised;
    bench
}

fn set(to_ns: u32) -> Advised {
    let how = "`haltwise apply` in the guest".to_owned();
    Advised::Set {
        from_ns: Params::default().guest_halt_poll_ns,
        to_ns,
        how,
    }
}

fn host() -> Advised {
    let how = "`haltwise apply` on the host".to_owned();
    Advised::Host { how }
}

fn stolen(share: impl Into<Option<f64>>) -> InGuest {
    InGuest {
        stolen_of_wanted: share.into(),
        ..haltpoll()
    }
}

fn with_params(params: impl Into<Option<Params>>) -> InGuest {
    InGuest {
        params: params.into(),
        ..haltpoll()
    }
}

#[test]
fn rules_of_a_host_are_not_asked_of_a_guest() {
    let bench = of(SHORT, haltpoll());
    let explained = bench.explain();
    let ids: Vec<&str> = OF_GUEST.iter().map(|rule| rule.id).collect();
    let found = explained.findings.iter().map(|it| it.rule.id);
    let blind = explained.blind.iter().map(|it| it.rule.id);
    assert!(found.chain(blind).all(|id| ids.contains(&id)));
    // On a host the same halts are another rule's.
    assert!(calm(SHORT).says("hlt-below-break-even").is_some());
    assert_eq!(bench.says("hlt-below-break-even"), None);
}

#[test]
fn short_entries_into_hlt_are_polled_unless_tune_says_otherwise() {
    let id = "guest-hlt-below-break-even";
    assert_eq!(of(SHORT, haltpoll()).says(id), Some(Sure::Likely));
    let menu = with_params(None);
    assert_eq!(of(SHORT, menu).says(id), Some(Sure::Certain));
    // Longer asleep than a wake-up takes.
    let longer = SHORT.gap_ns(100_000);
    assert_eq!(of(longer, haltpoll()).says(id), None);
    let more = told(SHORT, set(400_000));
    assert_eq!(more.gives(id), [Does::GuestPolls]);
    let text = more.finding(id).unwrap().found.remedies.remove(0).text;
    assert_eq!(text, "`haltwise apply` in the guest, as tune recommends.");
    for (advised, why) in [
        (set(100_000), "guest_halt_poll_ns=100000 instead of 200000"),
        (host(), "polling in the host instead"),
        (Advised::Leave, "no significantly better setting"),
    ] {
        let withheld = told(SHORT, advised).withholds(id).unwrap();
        assert!(withheld.contains(why), "{withheld}");
    }
    let doubtful = stolen(None);
    assert_eq!(of(SHORT, doubtful).says(id), Some(Sure::Likely));
    let wanted = of(SHORT, stolen(MOST_STEAL)).lacks(id).unwrap();
    assert!(wanted.contains("(steal)"), "{wanted}");
}

#[test]
fn polls_that_fail_are_given_up_unless_what_they_spare_is_worth_more() {
    let id = "guest-failed-polls";
    let fails = of(FAILS, haltpoll());
    assert_eq!(fails.gives(id), [Does::GuestPollsLess]);
    // A fifth of a CPU: 200 us of each millisecond.
    assert!((fails.cost(id) / 1e9 - 0.2).abs() < 0.001);
    assert_eq!(told(FAILS, host()).gives(id), [Does::GuestPollsLess]);
    assert!(told(FAILS, set(400_000)).withholds(id).is_some());
    assert_eq!(of(CATCHES, haltpoll()).says(id), None);
    // Three of four catch their wake, and each spares 5 ms.
    let pays = FAILS.cut_each(4).gap_ns(100_000).latency_ns(800_000);
    let why = of(pays, haltpoll()).withholds(id).unwrap();
    assert!(why.contains("by the goal it costs"), "{why}");
}

#[test]
fn polling_while_time_is_stolen_is_found_from_the_limit_on() {
    let id = "guest-polls-stolen-time";
    let found = of(CATCHES, stolen(0.1));
    assert_eq!(found.says(id), Some(Sure::Certain));
    assert!(!found.gives(id).is_empty());
    assert_eq!(of(CATCHES, stolen(0.099)).says(id), None);
    assert_eq!(of(SHORT, stolen(0.5)).says(id), None, "it did not poll");
    let unknown = stolen(None);
    let lacks = of(CATCHES, unknown).lacks(id);
    assert_eq!(lacks.as_deref(), Some("steal time was not recorded"));
}

#[test]
fn a_limit_that_stays_is_found_where_nothing_shrinks_it() {
    let id = "guest-limit-stays";
    let no_shrink = |guest_halt_poll_ns| {
        with_params(Params {
            guest_halt_poll_ns,
            allow_shrink: false,
            ..Params::default()
        })
    };
    let bench = of(CATCHES, no_shrink(200_000));
    assert_eq!(bench.gives(id), [Does::GuestPollsLess]);
    // 200 us beyond the 400 us of each millisecond, less what a bucket holds.
    let share = bench.cost(id) / 1e9;
    assert!((0.1..=0.2).contains(&share), "{share}");
    assert_eq!(of(CATCHES, no_shrink(400_000)).says(id), None);
    assert_eq!(of(CATCHES, haltpoll()).says(id), None, "it may shrink");
}

#[test]
fn a_linux_guest_that_ticks_is_given_no_remedy_of_windows() {
    let ticks = LOAD.gap_ns(900_000).wake(WakeSource::Timer);
    assert_eq!(of(ticks, haltpoll()).gives("tick-storm"), [Does::ForLinux]);
    let on_host = calm(ticks).gives("tick-storm");
    assert!(on_host.contains(&Does::ForWindows), "{on_host:?}");
}
