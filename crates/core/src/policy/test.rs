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
