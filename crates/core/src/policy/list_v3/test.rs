//! The reported walk, through the policy.

use crate::policy::test::model::{build, setting, walk};
use crate::policy::{Setting, Start};

#[test]
fn an_idle_vcpu_walks_up_and_drops() {
    let mut policy = build("list-v3", &setting(30_000));
    let windows = walk(policy.as_mut(), &[1_000_000_000; 6]);
    let reported = [0, 500_000, 1_000_000, 2_000_000, 4_000_000, 0, 500_000];
    assert_eq!(windows, reported);
}

#[test]
fn its_knobs_can_be_given() {
    let text = "list-v3:max=90us,grow=3,grow_start=10us";
    let ceiling = Setting {
        start: Start::Ceiling,
        ..setting(30_000)
    };
    for (setting, expected) in [
        (&setting(30_000), [0, 10_000, 30_000, 90_000, 0]),
        (&ceiling, [90_000, 0, 10_000, 30_000, 90_000]),
    ] {
        let mut policy = build(text, setting);
        assert_eq!(walk(policy.as_mut(), &[200_000; 4]), expected);
    }
    let mut policy = build(text, &setting(30_000));
    let climbed = walk(policy.as_mut(), &[25_000; 4]);
    assert_eq!(climbed, [0, 10_000, 30_000, 30_000, 30_000]);
}
