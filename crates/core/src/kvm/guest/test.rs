//! Boundary tables of the governor, and its quirks.

use super::*;

const DEFAULT: Params = Params {
    guest_halt_poll_ns: 200_000,
    grow: 2,
    grow_start: 50_000,
    shrink: 2,
    allow_shrink: true,
};

fn on(version: &str) -> Rule {
    Rule::of(version.parse().unwrap()).unwrap()
}

fn adjusted(grow: bool, old: u32, new: u32) -> Adjusted {
    Adjusted {
        limit_ns: new,
        call: Some(Call { grow, old, new }),
    }
}

fn kept(limit_ns: u32) -> Adjusted {
    Adjusted {
        limit_ns,
        call: None,
    }
}

/// The limits after each of so many times in HLT.
fn walk(rule: Rule, params: &Params, limit_ns: u32, residencies: &[u64]) -> Vec<u32> {
    let next = |limit: &mut u32, residency_ns: &u64| {
        *limit = rule.adjust(params, *limit, *residency_ns).limit_ns;
        Some(*limit)
    };
    residencies.iter().scan(limit_ns, next).collect()
}

#[test]
fn the_eras() {
    assert_eq!(Params::default(), DEFAULT);
    assert_eq!(Rule::of("5.3".parse().unwrap()), None);
    let current = Rule {
        residency_in_us: false,
        shrink_floor: true,
    };
    let middle = Rule {
        shrink_floor: false,
        ..current
    };
    let first = Rule {
        residency_in_us: true,
        ..middle
    };
    for (version, rule) in [
        ("5.4", first),
        ("5.5", middle),
        ("5.10", middle),
        ("6.1", middle),
        ("6.8", middle),
        ("6.9", current),
        ("6.12", current),
        ("7.2", current),
    ] {
        assert_eq!(on(version), rule, "{version}");
    }
}

#[test]
fn what_an_idle_cpu_does() {
    let halted = Last::Halt { residency_ns: 1 };
    let [worked, timed_out] = [false, true].map(|timed_out| Last::Poll { timed_out });
    let poll = Choice {
        state: State::Poll,
        keeps_tick: true,
    };
    let halt = Choice {
        state: State::Halt,
        keeps_tick: false,
    };
    for (limit_ns, last, latency_req_ns, expected) in [
        (0, halted, 1, halt),
        (0, worked, 1, halt),
        (0, timed_out, 1, halt),
        (1, halted, 1, poll),
        (1, worked, 1, poll),
        (1, timed_out, 1, halt),
        (0, timed_out, 0, poll),
        (1, timed_out, 0, poll),
        (1, halted, -1, poll),
        (0, halted, i64::MAX, halt),
    ] {
        let found = select(limit_ns, last, latency_req_ns);
        assert_eq!(found, expected, "{limit_ns} {last:?} {latency_req_ns}");
    }
}

#[test]
fn the_branches() {
    for (limit_ns, residency_ns, expected) in [
        (0, 0, kept(0)),
        (0, 1, adjusted(true, 0, 50_000)),
        (50_000, 50_000, kept(50_000)),
        (50_000, 50_001, adjusted(true, 50_000, 100_000)),
        // Equality with the ceiling grows, where the host's rule does nothing.
        (150_000, 200_000, adjusted(true, 150_000, 200_000)),
        (200_000, 200_000, kept(200_000)),
        (200_000, 200_001, adjusted(false, 200_000, 100_000)),
        (100_000, u64::MAX, adjusted(false, 100_000, 50_000)),
        (99_999, u64::MAX, adjusted(false, 99_999, 0)),
        // Also of a limit of 0: the tracepoint tells it.
        (0, u64::MAX, adjusted(false, 0, 0)),
    ] {
        let found = on("6.12").adjust(&DEFAULT, limit_ns, residency_ns);
        assert_eq!(found, expected, "{limit_ns} {residency_ns}");
    }
}

#[test]
fn polling_moves_nothing() {
    for timed_out in [false, true] {
        let found = on("6.12").reflect(&DEFAULT, 7, Last::Poll { timed_out });
        assert_eq!(found, kept(7));
    }
    let halted = Last::Halt {
        residency_ns: 60_000,
    };
    let found = on("6.12").reflect(&DEFAULT, 7, halted);
    assert_eq!(found, adjusted(true, 7, 50_000));
}

#[test]
fn the_first_kernel_counts_in_microseconds() {
    for (residency_ns, first, later) in [
        (999, 0, 50_000),
        (1_000, 50_000, 50_000),
        (200_999, 50_000, 0),
        (201_000, 0, 0),
    ] {
        let limit = |version: &str| on(version).adjust(&DEFAULT, 0, residency_ns).limit_ns;
        assert_eq!(
            (limit("5.4"), limit("5.5")),
            (first, later),
            "{residency_ns}"
        );
    }
}

#[test]
fn the_widespread_setting_is_a_toggle_on_new_kernels_and_a_slow_decay_on_old() {
    let params = Params {
        guest_halt_poll_ns: 2_400_000,
        grow_start: 2_400_000,
        ..DEFAULT
    };
    let long = [2_400_001; 3];
    assert_eq!(walk(on("6.12"), &params, 0, &[1]), [2_400_000]);
    assert_eq!(walk(on("6.12"), &params, 2_400_000, &long), [0, 0, 0]);
    let decay = walk(on("6.1"), &params, 2_400_000, &long);
    assert_eq!(decay, [1_200_000, 600_000, 300_000]);
}

#[test]
fn without_a_floor_a_limit_halves_down_to_nothing() {
    // The trace in the mail that brought the floor.
    let decay = walk(on("6.1"), &DEFAULT, 10_000, &[u64::MAX; 12]);
    assert_eq!(
        decay,
        [5000, 2500, 1250, 625, 312, 156, 78, 39, 19, 9, 4, 2]
    );
}

#[test]
fn shrinking_can_be_forbidden_and_then_a_lower_ceiling_does_nothing() {
    let forbidden = Params {
        allow_shrink: false,
        guest_halt_poll_ns: 10_000,
        ..DEFAULT
    };
    for residency_ns in [0, 10_000, 10_001, 200_001, u64::MAX] {
        let found = on("6.12").adjust(&forbidden, 200_000, residency_ns);
        assert_eq!(found, kept(200_000), "{residency_ns}");
    }
}

#[test]
fn odd_parameters() {
    let limit = |params: Params, limit_ns, residency_ns| {
        on("6.12").adjust(&params, limit_ns, residency_ns).limit_ns
    };
    let grow = |grow| Params { grow, ..DEFAULT };
    // A factor of 0 still grows, to the start.
    assert_eq!(limit(grow(0), 0, 1), 50_000);
    assert_eq!(limit(grow(0), 120_000, 150_000), 50_000);
    // A start above the ceiling is the ceiling.
    let start = |grow_start| Params {
        grow_start,
        ..DEFAULT
    };
    assert_eq!(limit(start(300_000), 0, 1), 200_000);
    // A start of 0 never leaves 0.
    assert_eq!(limit(start(0), 0, 1), 0);
    let shrink = |shrink| Params { shrink, ..DEFAULT };
    assert_eq!(limit(shrink(0), 200_000, 200_001), 0);
    assert_eq!(limit(shrink(1), 200_000, 200_001), 200_000);
    assert_eq!(limit(shrink(3), 200_000, 200_001), 66_666);
    // A ceiling of 0 is off: every HLT shrinks.
    let off = Params {
        guest_halt_poll_ns: 0,
        ..DEFAULT
    };
    assert_eq!(limit(off, 200_000, 1), 100_000);
    assert_eq!(limit(off, 0, 1), 0);
    // 2^31 * 2 wraps to 0, and the start lifts it.
    let wide = Params {
        guest_halt_poll_ns: u32::MAX,
        ..DEFAULT
    };
    assert_eq!(limit(wide, 1 << 31, u64::from(u32::MAX)), 50_000);
}
