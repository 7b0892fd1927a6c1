//! What the governor is told, and what it makes of it.

use crate::policy::test::model::{build, refusal, setting, walk};
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
        let setting = Setting {
            start,
            ..setting(30_000)
        };
        let mut policy = build("guest-haltpoll", &setting);
        let windows = walk(policy.as_mut(), &[gap_ns]);
        assert_eq!(windows[1], expected, "{start:?} {gap_ns}");
        assert_eq!(policy.side(), Side::Guest);
    }
}

#[test]
fn its_parameters_have_the_modules_names() {
    let walked = |text: &str| {
        let mut policy = build(text, &setting(30_000));
        walk(policy.as_mut(), &[10_000, 200_000, 10_000_000, 10_000_000])
    };
    assert_eq!(
        walked(
            "guest-haltpoll:max=300us,grow=3,\
             grow_start=9us,shrink=4"
        ),
        [0, 9_000, 27_000, 0, 0]
    );
    let tuned = "guest-haltpoll:max=2400us,grow_start=2400us";
    assert_eq!(walked(tuned), [0, 2_400_000, 2_400_000, 0, 0]);
    let decay = [0, 2_400_000, 2_400_000, 1_200_000, 600_000];
    assert_eq!(walked(&format!("{tuned},kernel=6.1")), decay);
    let kept = walked("guest-haltpoll:allow_shrink=N");
    assert_eq!(kept, [0, 50_000, 100_000, 100_000, 100_000]);
}

#[test]
fn what_no_guest_has_is_refused() {
    for (args, message) in [
        (
            "kernel=5.3",
            "`kernel=5.3` is not a kernel that has the governor (5.4 or later)",
        ),
        ("allow_shrink=maybe", "`allow_shrink=maybe` is not Y or N"),
        ("max=5s", "`max=5s` is not a time that KVM"),
        ("halt_poll_ns=5us", "takes no `halt_poll_ns`"),
    ] {
        let error = refusal(&format!("guest-haltpoll:{args}"));
        assert!(error.contains(message), "{args}: {error}");
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
