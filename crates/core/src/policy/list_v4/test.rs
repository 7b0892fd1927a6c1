//! Always at the ceiling.

use crate::policy::test::model::{build, setting, walk};
use crate::policy::{Ask, Seen, Setting, Start};

const TEXT: &str = "list-v4:max=50us,grow_start=10us";

#[test]
fn it_climbs_whatever_the_length_of_the_halt() {
    for gap_ns in [0, 1, 60_000, u64::MAX] {
        let mut policy = build(TEXT, &setting(30_000));
        let windows = walk(policy.as_mut(), &[gap_ns; 4]);
        assert_eq!(windows, [0, 10_000, 20_000, 40_000, 50_000], "{gap_ns}");
    }
}

#[test]
fn an_invalid_wakeup_changes_nothing() {
    let ceiling = Setting {
        start: Start::Ceiling,
        ..setting(30_000)
    };
    for (setting, expected) in [(&setting(30_000), 0), (&ceiling, 50_000)] {
        let mut policy = build(TEXT, setting);
        policy.learn(&Seen {
            halt_ns: 7,
            valid: false,
            ..Seen::default()
        });
        assert_eq!(policy.window(&Ask::default()), expected);
    }
}
