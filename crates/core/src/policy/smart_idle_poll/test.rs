//! The rule as it is told.

use crate::policy::test::model::{build, setting, walk};
use crate::policy::{Setting, Side, Start};

#[test]
fn one_idle_time() {
    for (start, gap_ns, expected) in [
        (Start::Zero, 0, 10_000),
        (Start::Zero, 99_999, 10_000),
        (Start::Zero, 100_000, 0),
        (Start::Zero, 100_001, 0),
        (Start::Ceiling, 0, 100_000),
        (Start::Ceiling, 100_000, 100_000),
        (Start::Ceiling, 100_001, 50_000),
        (Start::Ceiling, u64::MAX, 50_000),
    ] {
        let setting = Setting {
            start,
            ..setting(30_000)
        };
        let mut policy = build("smart-idle-poll", &setting);
        let windows = walk(policy.as_mut(), &[gap_ns]);
        assert_eq!(windows[1], expected, "{start:?} {gap_ns}");
        assert_eq!(policy.side(), Side::Guest);
    }
}

#[test]
fn it_grows_though_it_was_long_enough() {
    let mut policy = build("smart-idle-poll", &setting(30_000));
    let windows = walk(policy.as_mut(), &[5_000; 6]);
    let climb = [0, 10_000, 20_000, 40_000, 80_000, 100_000, 100_000];
    assert_eq!(windows, climb);
}

#[test]
fn its_knobs_can_be_given() {
    let walked = |text: &str| {
        let mut policy = build(text, &setting(30_000));
        walk(policy.as_mut(), &[5_000, 5_000, 5_000, 90_000, 90_000])
    };
    assert_eq!(
        walked(
            "smart-idle-poll:paravirt_poll_threshold_ns=50us,paravirt_poll_grow=4,\
             paravirt_poll_shrink=5"
        ),
        [0, 10_000, 40_000, 50_000, 10_000, 2_000]
    );
    let dropped = "smart-idle-poll:paravirt_poll_threshold_ns=20us,paravirt_poll_shrink=0";
    assert_eq!(walked(dropped), [0, 10_000, 20_000, 20_000, 0, 0]);
    let stuck = "smart-idle-poll:paravirt_poll_threshold_ns=50us,paravirt_poll_grow=0";
    assert_eq!(walked(stuck), [0, 10_000, 0, 10_000, 5_000, 2_500]);
}
