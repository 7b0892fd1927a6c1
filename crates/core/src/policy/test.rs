//! Properties that hold for all policies.

mod laws;
pub(super) mod model;
pub(super) mod worst;

use super::*;

fn every_policy(setting: &Setting) -> Vec<(&'static str, Box<dyn Policy>)> {
    let build = |entry: &Entry| {
        let texts = [
            entry.name.to_owned(),
            format!("{}:50us", entry.name),
            format!("{}:2%|kvm", entry.name),
        ];
        let built = |text: &String| text.parse::<Spec>().ok()?.build(setting).ok();
        let built = texts.iter().find_map(built);
        (entry.name, built.unwrap_or_else(|| panic!("{texts:?}")))
    };
    POLICIES.iter().map(build).collect()
}

fn setting() -> Setting {
    model::setting(30_000)
}

#[test]
fn no_policy_but_the_clairvoyant_sees_the_future() {
    let play = |future: fn(u64) -> Option<u64>| -> Vec<(&str, Vec<u64>)> {
        let play_one = |(name, mut policy): (&'static str, Box<dyn Policy>)| {
            let windows = (0..2_000_u64).map(|index| {
                let gap_ns = index * 7_919 % 90_000;
                let window = policy.window(future(gap_ns));
                policy.learn(&model::seen(gap_ns, window, 20_000));
                window
            });
            (name, windows.collect())
        };
        every_policy(&setting()).into_iter().map(play_one).collect()
    };
    let (known, unknown) = (play(Some), play(|_| None));
    for ((name, told), (_, untold)) in known.iter().zip(&unknown) {
        assert_eq!(told == untold, *name != "clairvoyant", "{name}");
    }
    for (name, policy) in every_policy(&setting()) {
        assert_eq!(policy.sees_the_future(), name == "clairvoyant", "{name}");
    }
}

#[test]
fn names_are_unique_and_every_policy_says_what_it_does() {
    for (index, entry) in POLICIES.iter().enumerate() {
        let is_first = POLICIES.iter().position(|other| other.name == entry.name) == Some(index);
        assert!(is_first, "{}", entry.name);
        let length = entry.summary.len();
        assert!((1..64).contains(&length), "{}", entry.name);
    }
}

#[test]
fn guest_haltpoll_judges_the_time_in_hlt_alone() {
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
        let mut setting = setting();
        setting.start = start;
        let mut policy = model::build("guest-haltpoll", &setting);
        let windows = model::walk(policy.as_mut(), &[gap_ns]);
        assert_eq!(windows[1], expected, "{start:?} {gap_ns}");
        assert_eq!(policy.side(), Side::Guest);
    }
}

/// Below `grow_start` a limit becomes 0 from 6.9 on only.
#[test]
fn the_kernel_is_that_of_a_recording_made_in_the_guest() {
    for (side, shrunk) in [(Side::Host, 0), (Side::Guest, 25_000)] {
        let setting = Setting {
            version: Version::new(6, 1),
            side,
            ..setting()
        };
        let mut policy = model::build("guest-haltpoll", &setting);
        let windows = model::walk(policy.as_mut(), &[200_000, 10_000_000]);
        assert_eq!(windows[1..], [50_000, shrunk], "{side:?}");
    }
}

#[test]
fn smart_idle_poll_after_one_idle_time() {
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
        let mut setting = setting();
        setting.start = start;
        let mut policy = model::build("smart-idle-poll", &setting);
        let windows = model::walk(policy.as_mut(), &[gap_ns]);
        assert_eq!(windows[1], expected, "{start:?} {gap_ns}");
        assert_eq!(policy.side(), Side::Guest);
    }
}
