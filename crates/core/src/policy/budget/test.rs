//! What is given, and when.

use crate::policy::test::model::{build, refusal, seen, setting};
use crate::policy::{Ask, Policy, Seen, Setting, Side, Start};

/// The window of a halt that begins at a time, and is polled through if it is given any.
fn at(policy: &mut dyn Policy, now_ns: u64) -> u64 {
    let window_ns = policy.window(&Ask {
        now_ns,
        ..Ask::default()
    });
    policy.learn(&seen(u64::MAX >> 1, window_ns, 0));
    window_ns
}

#[test]
fn what_is_saved_up_is_given() {
    let mut policy = build("budget:2%|fixed:50us", &setting(30_000));
    for (now_ns, expected) in [
        // Nothing is saved before the first halt, whenever that is.
        (7_000_000, 0),
        // 2 % of 2.5 ms are 50 us: not yet.
        (9_499_999, 0),
        (9_500_000, 50_000),
        (9_500_001, 0),
        // 2.5 ms later than what has been given.
        (12_000_000, 50_000),
        // A clock that goes back brings nothing, and what is saved stays.
        (11_000_000, 0),
        (13_000_000, 0),
    ] {
        assert_eq!(at(policy.as_mut(), now_ns), expected, "{now_ns}");
    }
}

#[test]
fn no_more_than_a_burst_is_saved_up() {
    let polls = |text: &str| {
        let mut policy = build(text, &setting(30_000));
        at(policy.as_mut(), 0);
        let hour_ns = 3_600_000_000_000;
        (0..1_000)
            .filter(|_| at(policy.as_mut(), hour_ns) > 0)
            .count()
    };
    assert_eq!(polls("budget:2%|fixed:50us"), 200);
    assert_eq!(polls("budget:2%,burst=1ms|fixed:50us"), 20);
    assert_eq!(polls("budget:2%,burst=0|fixed:50us"), 0);
    assert_eq!(polls("budget:0%|fixed:50us"), 0);
}

#[test]
fn what_no_bucket_holds_gets_a_full_one() {
    let mut policy = build("budget:10%,burst=1ms|fixed:always", &setting(30_000));
    for (now_ns, expected) in [
        (0, 0),
        (9_999_999, 0),
        (10_000_000, 1_000_000),
        (10_000_001, 0),
        (90_000_000, 1_000_000),
    ] {
        assert_eq!(at(policy.as_mut(), now_ns), expected, "{now_ns}");
    }
}

#[test]
fn a_poll_that_lasted_too_long_is_a_debt() {
    let mut policy = build("budget:50%|fixed:10us", &setting(30_000));
    let mut halt = |now_ns, poll_ns| {
        let ask = Ask {
            now_ns,
            ..Ask::default()
        };
        let window_ns = policy.window(&ask);
        policy.learn(&Seen {
            halt_ns: poll_ns,
            poll_ns,
            valid: true,
            ..Seen::default()
        });
        window_ns
    };
    assert_eq!(halt(0, 0), 0);
    assert_eq!(halt(20_000, 15_000), 10_000);
    // 10 us are earned, 5 us are owed.
    assert_eq!(halt(40_000, 0), 0);
    assert_eq!(halt(50_000, 0), 10_000);
}

#[test]
fn the_other_policy_sees_all_and_says_who_polls() {
    let ceiling = Setting {
        start: Start::Ceiling,
        ..setting(30_000)
    };
    let mut policy = build("budget:100%|toggle:max=50us", &ceiling);
    assert_eq!(at(policy.as_mut(), 0), 0);
    assert_eq!(at(policy.as_mut(), 1_000_000), 0);
    assert_eq!(policy.side(), Side::Host);
    let guests = build("budget:1%|guest-haltpoll", &setting(30_000));
    assert_eq!(guests.side(), Side::Guest);
}

#[test]
fn without_a_share_or_a_policy_it_is_refused() {
    for (text, message) in [
        (
            "budget|kvm",
            "policy `budget` needs a share: it is written budget:SHARE%",
        ),
        (
            "budget:2%",
            "policy `budget` needs the policy that it limits",
        ),
        ("budget:2|kvm", "`=2` is not a share from 0% to 100%"),
        ("budget:101%|kvm", "is not a share from 0% to 100%"),
        ("budget:2%|kvm:x=1", "policy `kvm` takes no `x`"),
        ("budget:2%|", "there is no policy ``"),
    ] {
        let error = refusal(text);
        assert!(error.contains(message), "{text}: {error}");
    }
}
