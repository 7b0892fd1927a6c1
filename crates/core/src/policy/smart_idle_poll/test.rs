//! The rule as it is told.

use crate::policy::test::model::{build, setting, walk};
use crate::policy::{Side, Start};

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
        let mut setting = setting(30_000);
        setting.start = start;
        let mut policy = build("smart-idle-poll", &setting);
        let windows = walk(policy.as_mut(), &[gap_ns]);
        assert_eq!(windows[1], expected, "{start:?} {gap_ns}");
        assert_eq!(policy.side(), Side::Guest);
    }
}
