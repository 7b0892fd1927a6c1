//! Inputs of the governor, and the governor's results.

use crate::policy::test::model::{build, setting, walk};
use crate::policy::{Setting, Side, Start};

#[test]
fn it_judges_the_time_in_hlt_alone() {
    for (start, gap_ns, expected) in [
        (Start::Zero, 0, 0),
        (Start::Zero, 1, 50_000),
        (Start::Zero, 200_000, 50_000),
        (Start::Zero, 200_001, 0),
        // A poll that succeeds moves nothing.
        (Start::Ceiling, 0, 200_000),
        (Start::Ceiling, 200_000, 200_000),
        // The limit is polled first, so twice the ceiling is still short.
        (Start::Ceiling, 400_000, 200_000),
        (Start::Ceiling, 400_001, 100_000),
        (Start::Ceiling, u64::MAX, 100_000),
    ] {
        let mut setting = setting(30_000);
        setting.start = start;
        let mut policy = build("guest-haltpoll", &setting);
        let windows = walk(policy.as_mut(), &[gap_ns]);
        assert_eq!(windows[1], expected, "{start:?} {gap_ns}");
        assert_eq!(policy.side(), Side::Guest);
    }
}

/// Below `grow_start` a limit becomes 0 from 6.9 on only.
#[test]
fn the_kernel_is_that_of_a_recording_made_in_the_guest() {
    for (side, shrunk) in [(Side::Host, 0), (Side::Guest, 25_000)] {
        let setting = Setting {
            version: crate::kvm::Version::new(6, 1),
            side,
            ..setting(30_000)
        };
        let mut policy = build("guest-haltpoll", &setting);
        let windows = walk(policy.as_mut(), &[200_000, 10_000_000]);
        assert_eq!(windows[1..], [50_000, shrunk], "{side:?}");
    }
}
