//! Releases of the governor, and what an idle CPU does. Its arithmetic is in `tests/kvm_worlds.rs`.

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

#[test]
fn the_eras() {
    assert_eq!(Params::default(), DEFAULT);
    assert_eq!(Rule::of("5.3".parse().unwrap()), None);
    let current = Rule {
        residency_in_us: false,
        shrink_floor: true,
    };
    let mut middle = current;
    middle.shrink_floor = false;
    let mut first = middle;
    first.residency_in_us = true;
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
    let (poll, halt) = (State::Poll, State::Halt);
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
fn polling_moves_nothing() {
    for timed_out in [false, true] {
        let found = on("6.12").reflect(&DEFAULT, 7, Last::Poll { timed_out });
        assert_eq!((found.limit_ns, found.call), (7, None));
    }
}
