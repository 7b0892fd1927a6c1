//! The two windows and what moves between them.

use crate::policy::Start;
use crate::policy::test::model::{build, setting, walk};

#[test]
fn the_last_halt_decides() {
    for (start, gap_ns, expected) in [
        (Start::Zero, 0, 0),
        (Start::Zero, 1, 50_000),
        (Start::Zero, 49_999, 50_000),
        (Start::Zero, 50_000, 0),
        (Start::Zero, 50_001, 0),
        (Start::Ceiling, 0, 50_000),
        (Start::Ceiling, 50_000, 50_000),
        (Start::Ceiling, 50_001, 0),
        (Start::Ceiling, u64::MAX, 0),
    ] {
        let setting = crate::policy::Setting {
            start,
            ..setting(30_000)
        };
        let mut policy = build("toggle:max=50us", &setting);
        assert_eq!(walk(policy.as_mut(), &[gap_ns])[1], expected, "{gap_ns}");
    }
}

#[test]
fn without_a_ceiling_given_it_is_the_recorded_one() {
    let mut policy = build("toggle", &setting(30_000));
    let windows = walk(policy.as_mut(), &[150_000, 150_000, 250_000, 250_000]);
    assert_eq!(windows, [0, 200_000, 200_000, 0, 0]);
}
