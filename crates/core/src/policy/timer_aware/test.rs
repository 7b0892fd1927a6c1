//! What a known timer changes.

use crate::policy::test::model::{build, refusal, seen, setting};
use crate::policy::{Ask, Policy, Side};

const BREAK_EVEN_NS: u64 = 30_000;

/// The window of a halt with a timer, which wakes after a gap.
fn halt(policy: &mut dyn Policy, timer_ns: Option<u64>, gap_ns: u64) -> u64 {
    let window_ns = policy.window(&Ask {
        timer_ns,
        ..Ask::default()
    });
    policy.learn(&seen(gap_ns, window_ns, 0));
    window_ns
}

#[test]
fn the_window_by_the_timer() {
    for (inner, timer_ns, expected) in [
        ("off", None, 0),
        ("off", Some(0), 30_000),
        ("off", Some(30_000), 30_000),
        ("off", Some(30_001), 0),
        ("fixed:20us", None, 20_000),
        ("fixed:20us", Some(0), 50_000),
        ("fixed:20us", Some(50_000), 50_000),
        ("fixed:20us", Some(50_001), 20_000),
        ("fixed:20us", Some(u64::MAX), 20_000),
        ("fixed:always", Some(u64::MAX), u64::MAX),
    ] {
        let mut policy = build(&format!("timer-aware|{inner}"), &setting(BREAK_EVEN_NS));
        let window_ns = halt(policy.as_mut(), timer_ns, 1_000_000);
        assert_eq!(window_ns, expected, "{inner} {timer_ns:?}");
    }
}

/// What a toggle under it makes of one halt: it grows for a short one, and not for one that never
/// ended.
#[test]
fn what_the_other_policy_hears() {
    for (start_gap_ns, timer_ns, gap_ns, expected) in [
        (40_000, None, 40_000, 50_000),
        // Something else came first.
        (40_000, Some(80_000), 40_000, 50_000),
        (40_000, Some(41_001), 40_000, 50_000),
        // It was the timer: as if nothing had come.
        (40_000, Some(41_000), 40_000, 0),
        (40_000, Some(40_000), 40_000, 0),
        (40_000, Some(39_000), 40_000, 0),
        // It was polled for: nothing is heard.
        (40_000, Some(20_000), 20_000, 50_000),
        (90_000, Some(20_000), 20_000, 0),
        // Something else came before a near timer.
        (90_000, Some(20_000), 10_000, 50_000),
    ] {
        let mut policy = build("timer-aware|toggle:max=50us", &setting(BREAK_EVEN_NS));
        halt(policy.as_mut(), None, start_gap_ns);
        halt(policy.as_mut(), timer_ns, gap_ns);
        let window_ns = halt(policy.as_mut(), None, 0);
        assert_eq!(window_ns, expected, "{start_gap_ns} {timer_ns:?} {gap_ns}");
    }
}

/// Half of the halts end by a timer of 25 us, half last a millisecond and have no timer: a histogram
/// alone gives up on both.
#[test]
fn timers_are_polled_for_where_polling_does_not_pay_on_the_whole() {
    let play = |text: &str| {
        let mut policy = build(text, &setting(BREAK_EVEN_NS));
        let mut play = |index: u64| {
            if index.is_multiple_of(2) {
                halt(policy.as_mut(), Some(25_000), 25_000)
            } else {
                halt(policy.as_mut(), None, 1_000_000)
            }
        };
        (0..300).map(&mut play).for_each(drop);
        [play(0), play(1)]
    };
    assert_eq!(play("learned"), [0, 0]);
    assert_eq!(play("timer-aware"), [30_000, 0]);
}

/// A request after 10 us and a tick at 35 us take turns. A histogram alone polls for both, at every
/// halt; where the requests stop, only ticks are left, which are not worth it.
#[test]
fn a_tick_beyond_the_break_even_is_polled_for_only_on_the_way() {
    let mut policy = build("timer-aware", &setting(BREAK_EVEN_NS));
    let mut play = |gap_ns| halt(policy.as_mut(), Some(35_000), gap_ns);
    let both: Vec<_> = (0..300)
        .map(|index: u64| {
            play(if index.is_multiple_of(3) {
                35_000
            } else {
                10_000
            })
        })
        .collect();
    assert!((40_000..42_000).contains(&both[299]), "{}", both[299]);
    let ticks: Vec<_> = (0..300).map(|_| play(35_000)).collect();
    assert_eq!(ticks[299], 0);
}

#[test]
fn it_asks_learned_unless_told_otherwise() {
    let mut alone = build("timer-aware", &setting(BREAK_EVEN_NS));
    let mut spelled = build("timer-aware|learned", &setting(BREAK_EVEN_NS));
    for index in 0..500_u64 {
        let gap_ns = index * 7_919 % 90_000;
        let timer_ns = index.is_multiple_of(3).then_some(gap_ns);
        assert_eq!(
            halt(alone.as_mut(), timer_ns, gap_ns),
            halt(spelled.as_mut(), timer_ns, gap_ns)
        );
    }
    let guests = build("timer-aware|guest-haltpoll", &setting(BREAK_EVEN_NS));
    assert_eq!(guests.side(), Side::Guest);
    let error = refusal("timer-aware:50us");
    assert!(
        error.contains("policy `timer-aware` takes no `50us`"),
        "{error}"
    );
}
