//! Rules that the halt account alone allows.

use super::*;

#[test]
fn halts_shorter_than_a_wake_up_and_slept_through() {
    let id = "hlt-below-break-even";
    let short = Load {
        gap_ns: 20_000,
        ceiling_ns: 0,
        ..LOAD
    };
    let bench = Bench::new(1).load(short);
    assert_eq!(bench.says(id), Some(Sure::Certain));
    // 1000 halts a second that wait 30 us.
    assert!((bench.gain(id) / 30e6 - 1.0).abs() < 0.125);
    let silent = |load| assert_eq!(Bench::new(1).load(load).says(id), None);
    let capped = |ceiling_ns| Load {
        ceiling_ns,
        ..short
    };
    let says = |load| Bench::new(1).load(load).says(id);
    assert_eq!(says(capped(55_000)), Some(Sure::Likely), "below 2 x 30 us");
    assert_eq!(says(capped(200_000)), Some(Sure::Possible));
    let waits_for_cpu = Load {
        latency_ns: 300_000,
        ..short
    };
    assert_eq!(says(waits_for_cpu), None);
    let pressed = Bench::new(1).load(short).pressure(0.5);
    assert_eq!(pressed.says(id), None);
    assert!(pressed.lacks(id).unwrap().contains("50 %"));
    // Gaps longer than the wake-up; the same caught by a poll; too few; locked out.
    silent(Load {
        gap_ns: 60_000,
        ..short
    });
    silent(Load {
        ceiling_ns: 200_000,
        window_ns: 50_000,
        ..short
    });
    let few = Bench::new(1).load(Load { count: 99, ..short });
    assert_eq!(few.says(id), None);
    assert!(few.lacks(id).unwrap().contains("too few"));
    silent(Load {
        ceiling_ns: 40_000,
        ..short
    });
}

#[test]
fn gaps_within_the_ceiling_and_halts_beyond_it() {
    let id = "lock-out";
    let locked = Load {
        gap_ns: 20_000,
        latency_ns: 38_000,
        ceiling_ns: 50_000,
        source: CeilingSource::Cap,
        ..LOAD
    };
    let bench = Bench::new(1).load(locked);
    assert_eq!(bench.says(id), Some(Sure::Certain));
    let explained = bench.explain();
    let remedy = &explained.findings[0].found.remedy;
    assert!(remedy.contains("KVM_CAP_HALT_POLL to 58000"), "{remedy}");
    let pressed = Bench::new(1).load(locked).pressure(0.5);
    assert_eq!(pressed.says(id), Some(Sure::Possible));
    assert_eq!(
        bench.param("halt_poll_ns_grow", "0").says(id),
        None,
        "no ceiling would help"
    );
    let wide = Load {
        ceiling_ns: 60_000,
        ..locked
    };
    assert_eq!(Bench::new(1).load(wide).says(id), None);
    let long = Load {
        gap_ns: 55_000,
        ..locked
    };
    assert_eq!(Bench::new(1).load(long).says(id), None);
}

#[test]
fn a_ceiling_above_a_millisecond() {
    let id = "ceiling-above-1ms";
    let at = |ns: &str| Bench::new(1).param("halt_poll_ns", ns);
    assert_eq!(Bench::new(1).says(id), None);
    let mut told = Bench::new(1);
    told.ledger = Ledger::default();
    assert_eq!(told.param("halt_poll_ns", "1000000").says(id), None);
    assert_eq!(at("1000001").says(id), Some(Sure::Likely));
    let polls = Load {
        count: 1_000,
        period_ns: 10_000_000,
        gap_ns: 5_000_000,
        window_ns: 3_000_000,
        ceiling_ns: 4_000_000,
        ..LOAD
    };
    let bench = at("4000000").load(polls);
    assert_eq!(bench.says(id), Some(Sure::Certain));
    // 100 polls a second, 2 ms of each beyond the first.
    assert!(
        (bench.gain(id) / 200e6 - 1.0).abs() < 0.2,
        "{}",
        bench.gain(id)
    );
    let mut capped = Bench::new(1);
    capped.roster.vcpus[0].ceiling_ns = Some(2_000_000);
    capped.roster.vcpus[0].ceiling_source = CeilingSource::Cap;
    assert_eq!(capped.says(id), Some(Sure::Likely));
}

#[test]
fn a_shrink_of_zero_under_bursts() {
    let id = "shrink-0-on-bursts";
    let bursts = |shrink| {
        let bench = Bench::new(1)
            .load(LOAD)
            .param("halt_poll_ns_shrink", shrink);
        bench.window(false, 200).window(true, 1_000)
    };
    assert_eq!(bursts("0").says(id), Some(Sure::Likely));
    assert_eq!(bursts("2").says(id), None);
    let steady = Bench::new(1).load(LOAD).param("halt_poll_ns_shrink", "0");
    assert_eq!(steady.window(false, 10).window(true, 60).says(id), None);
    let unknown = Bench::new(1).load(LOAD);
    assert!(unknown.lacks(id).is_some());
}

#[test]
fn polling_where_others_want_the_cpu() {
    let id = "over-committed-polling";
    let polls = Load {
        window_ns: 50_000,
        ..LOAD
    };
    let cut = Load {
        cut_each: 2,
        ..polls
    };
    let bench = |load, pressure| Bench::new(1).load(load).pressure(pressure);
    assert_eq!(bench(cut, 0.5).says(id), Some(Sure::Certain));
    assert_eq!(bench(cut, 0.0).says(id), Some(Sure::Likely));
    assert_eq!(bench(polls, 0.5).says(id), Some(Sure::Possible));
    assert_eq!(bench(polls, 0.1).says(id), None);
    assert_eq!(bench(LOAD, 0.5).says(id), None, "nothing is polled");
    let little = Load {
        count: 1_000,
        ..cut
    };
    assert_eq!(bench(little, 0.5).says(id), None, "0.5 % of a CPU");
}

#[test]
fn a_guest_that_switched_polling_off() {
    let id = "guest-veto";
    let mut bench = Bench::new(2).load(LOAD);
    assert_eq!(bench.says(id), None);
    bench.roster.vcpus[1].guest_veto = Some(true);
    assert_eq!(bench.says(id), Some(Sure::Certain));
    for vcpu in &mut bench.roster.vcpus {
        vcpu.guest_veto = None;
    }
    assert_eq!(bench.says(id), None);
    assert!(bench.lacks(id).is_some());
}

#[test]
fn halts_that_stay_inside_the_guest() {
    let id = "halts-not-observable";
    let mut bench = Bench::new(1);
    assert_eq!(bench.says(id), Some(Sure::Possible));
    bench.roster.vms[0].observable = Observable::No("exits on HLT are disabled".into());
    assert_eq!(bench.says(id), Some(Sure::Certain));
    let one = Load { count: 1, ..LOAD };
    assert_eq!(Bench::new(1).load(one).says(id), None);
    // A second of ten in exits: the guest does not rest.
    let busy = |each_ns| {
        let exits = (Kind::Exit, 30, None, 100_000, each_ns);
        Bench::new(1).exits(&[], &[exits]).says(id)
    };
    assert_eq!((busy(8_000), busy(12_000)), (Some(Sure::Possible), None));
    let short = Bench::new(1).explain_in(SECOND - 1);
    assert!(short.findings.is_empty());
    assert!(short.blind.iter().any(|it| it.rule.id == id));
}

#[test]
fn a_tick_on_an_idle_vcpu() {
    let id = "tick-storm";
    let at = |hz: u64| Load {
        count: 10 * hz,
        period_ns: SECOND / hz,
        gap_ns: SECOND / hz - 50_000,
        wake: WakeSource::Timer,
        ..LOAD
    };
    for hz in [64, 100, 250, 1000, 1024, 2048] {
        assert_eq!(
            Bench::new(1).load(at(hz)).says(id),
            Some(Sure::Likely),
            "{hz}"
        );
    }
    let cause = |hz| {
        Bench::new(1).load(at(hz)).explain().findings[0]
            .found
            .cause
            .clone()
    };
    assert!(cause(1024).contains("1024 Hz"), "{}", cause(1024));
    assert!(cause(1000).contains("1 ms"), "{}", cause(1000));
    let silent = |load, why| assert_eq!(Bench::new(1).load(load).says(id), None, "{why}");
    // A busy host loses one tick of twenty.
    let lost = Load {
        count: 9_500,
        period_ns: 10 * SECOND / 9_500,
        ..at(1000)
    };
    assert_eq!(Bench::new(1).load(lost).says(id), Some(Sure::Possible));
    silent(at(700), "no known rate");
    let device = WakeSource::Device;
    silent(
        Load {
            wake: device,
            ..at(250)
        },
        "no timer",
    );
    let busy = Load {
        gap_ns: 100_000,
        ..at(1000)
    };
    silent(busy, "the vCPU works most of the time");
    let mut uneven = Bench::new(1);
    for nth in 0..2_500 {
        let load = Load {
            gap_ns: if nth % 2 == 0 { 1_500_000 } else { 3_900_000 },
            ..at(250)
        };
        uneven.ledger.halt(&load.halt(nth));
    }
    assert_eq!(uneven.says(id), None, "gaps vary");
    let mut chance = Bench::new(1);
    for nth in 0..20_480 {
        let load = Load {
            gap_ns: if nth % 16 == 0 { 4_000_000 } else { 190_000 },
            ..at(2048)
        };
        chance.ledger.halt(&load.halt(nth));
    }
    assert_eq!(chance.says(id), None, "a rate without its period");
}

#[test]
fn vcpus_that_wake_each_other() {
    let id = "ipi-storm";
    let storm = |vcpu| Load {
        vcpu,
        wake: WakeSource::Ipi,
        ..LOAD
    };
    let two = |change: fn(Load) -> Load| {
        Bench::new(2)
            .load(change(storm(0)))
            .load(change(storm(1)))
            .says(id)
    };
    assert_eq!(two(|load| load), Some(Sure::Likely));
    assert_eq!(
        two(|load| Load {
            count: 2_000,
            ..load
        }),
        None,
        "too slow"
    );
    assert_eq!(
        two(|load| Load {
            gap_ns: 700_000,
            ..load
        }),
        None,
        "beyond the reach of guest polling"
    );
    assert_eq!(
        two(|load| Load {
            wake: WakeSource::Timer,
            ..load
        }),
        None,
        "woken by timers"
    );
    let mut polls = Bench::new(2).load(storm(0)).load(storm(1));
    for vcpu in &mut polls.roster.vcpus {
        vcpu.guest_veto = Some(true);
    }
    assert_eq!(polls.says(id), None, "the guest polls already");
}

#[test]
fn what_was_not_told_is_not_judged() {
    let mut bench = Bench::new(1);
    for nth in 0..1_000 {
        bench.ledger.halt(&Halt {
            poll_ns: None,
            window_ns: None,
            ceiling_ns: None,
            wake: WakeSource::Unknown,
            ..LOAD.halt(nth)
        });
    }
    for id in [
        "hlt-below-break-even",
        "lock-out",
        "over-committed-polling",
        "tick-storm",
        "ipi-storm",
    ] {
        assert_eq!(bench.says(id), None);
        assert!(bench.lacks(id).is_some(), "{id}");
    }
}
