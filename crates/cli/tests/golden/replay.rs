//! `haltwise tune --policy` on every capture, against committed texts; its JSON against its page.

use super::{haltwise, home, prints};

/// Policies whose rule is the kernel's or the field's: their figures change only with the replay.
const POLICIES: &str =
    "--policy off --policy kvm --policy kvm:max=50us,shrink=0 --policy fixed:30us";

fn arguments<'a>(capture: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["tune", capture];
    arguments.extend(POLICIES.split(' '));
    arguments.extend(options);
    arguments
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
