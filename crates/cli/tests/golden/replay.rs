//! `haltwise replay` on every capture, against committed texts; its JSON against its page.

use super::schema::conforms;
use super::{haltwise, home, prints, scenarios};

/// Policies whose rule is the kernel's or the field's: their figures change only with the replay.
const POLICIES: [&str; 8] = [
    "--policy",
    "off",
    "--policy",
    "kvm",
    "--policy",
    "kvm:max=50us,shrink=0",
    "--policy",
    "fixed:30us",
];

fn arguments<'a>(capture: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["replay", capture];
    arguments.extend(POLICIES);
    arguments.extend(options);
    arguments
}

/// Captures that hold single halts, and sleeps to learn from.
fn replayable() -> impl Iterator<Item = &'static str> {
    let names = scenarios::all().into_iter().map(|scenario| scenario.name);
    names.filter(|name| !["counts", "kvm-stats", "no-halts"].contains(name))
}

#[test]
fn replays_are_as_committed() {
    let of = |options| arguments("captures/fleet", options);
    let text = prints(&home(), "fleet/replay.txt", &of(&[]));
    let wrong = text + &prints(&home(), "fleet/replay.json", &of(&["--json"]));
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Policies of the guest are not cut, and are told with what they spare: without a price, and with one.
#[test]
fn what_polling_in_the_guest_is_worth_is_as_committed() {
    let mut wrong = String::new();
    let guests = ["--policy", "guest-haltpoll", "--policy", "smart-idle-poll"];
    for (name, price) in [
        ("over-committed", &[][..]),
        ("transactional", &["--exit-cpu", "40us"]),
    ] {
        let capture = format!("captures/{name}");
        let options = [&guests[..], price].concat();
        let file = format!("{name}/replay-guest.txt");
        wrong += &prints(&home(), &file, &arguments(&capture, &options));
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_same_capture_gives_the_same_bytes() {
    for options in [
        &["--json"][..],
        &["--policy", "guest-haltpoll", "--policy", "learned"],
    ] {
        let run = || haltwise(&home(), &arguments("captures/bursty", options));
        assert_eq!(run(), run());
    }
}

#[test]
fn the_stock_rule_replayed_is_what_was_recorded() {
    for name in ["transactional", "bursty", "idle"] {
        let capture = format!("captures/{name}");
        let (json, _) = haltwise(&home(), &arguments(&capture, &["--json"]));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let figure = |of: &str, field: &str| {
            json.pointer(&format!("/host/{of}/{field}"))
                .unwrap()
                .clone()
        };
        for field in ["successful_polls", "blocks"] {
            let replayed = figure("played/1/from_zero", field);
            assert_eq!(replayed, figure("recorded", field), "{name}: {field}");
        }
    }
}

#[test]
fn the_json_is_as_published() {
    let guest = ["replay", "captures/bursty", "--policy", "guest-haltpoll"];
    let captures: Vec<String> = replayable()
        .map(|name| format!("captures/{name}"))
        .collect();
    let all = captures.iter().map(|capture| arguments(capture, &[]));
    for arguments in all.chain([guest.to_vec()]) {
        let (text, _) = haltwise(&home(), &[&arguments[..], &["--json"]].concat());
        conforms("replay", &serde_json::from_str(&text).unwrap());
    }
}
