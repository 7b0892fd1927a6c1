//! One answer, and one figure for one setting: `tune`, `report` and its page say the same of the
//! parameters of a capture, and no document contradicts another.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::tune::{LOADS, record};
use super::{home, ran, scenarios};
use crate::documents::{self, contradictions};

const HALTWISE: &str = env!("CARGO_BIN_EXE_haltwise");

/// JSON document of a verb about a capture, if the verb prints one.
fn said(home: &Path, verb: &[&str], capture: &str) -> Option<Value> {
    let (_, out, _) = ran(home, &[verb, &[capture, "--json"]].concat());
    serde_json::from_str(&out).ok()
}

const FIELDS: &str = "side goal verdict changes follows place reason notes in_force recommended host cost_share figures commands";

/// Asserts that a verb's recommendation is that of `tune`.
fn assert_is_of_tune(recommendation: &Value, tuned: &Value, whose: &str) {
    let ceilings = &tuned["played"]["caps"];
    // Only `tune` searches ceilings of VMs, which are not set by these commands.
    let has_ceilings = ceilings.is_object() && ceilings["withheld"].is_null();
    for name in FIELDS.split(' ') {
        if !(has_ceilings && name == "commands") {
            assert_eq!(recommendation[name], tuned[name], "{whose}: {name}");
        }
    }
}

/// The data of a capture's page, which its script works on.
fn page(home: &Path, capture: &str) -> Value {
    let page = documents::page(HALTWISE.as_ref(), &home.join(capture));
    page.unwrap().unwrap()
}

fn check(home: &Path, capture: &str) {
    let Some(tuned) = said(home, &["tune"], capture) else {
        let explained = said(home, &["report", "--findings"], capture).unwrap();
        let reported = said(home, &["report"], capture).unwrap();
        assert!(explained["recommendation"]["why_not"].is_string());
        assert_eq!(explained["recommendation"], reported["recommendation"]);
        return;
    };
    let against = match tuned["side"].as_str() {
        Some("guest") => &tuned["against_in_force"],
        _ => &tuned["played"]["against_in_force"],
    };
    assert_eq!(tuned["cost_share"], against["cost_share"], "{capture}");
    let explained = said(home, &["report", "--findings"], capture).unwrap();
    let reported = said(home, &["report"], capture).unwrap();
    for (whose, of) in [
        ("findings", explained),
        ("report", reported),
        ("page", page(home, capture)),
    ] {
        assert_is_of_tune(
            &of["recommendation"],
            &tuned,
            &format!("{capture}: {whose}"),
        );
    }
}

#[test]
fn every_verb_gives_one_answer_and_one_figure_for_a_setting() {
    for scenario in scenarios::all() {
        check(&home(), &format!("captures/{}", scenario.name));
    }
    let dir = tempfile::tempdir().unwrap();
    let mut captures = Vec::new();
    for (name, ceiling, gaps) in LOADS {
        let capture = dir.path().join(name);
        record(&capture, ceiling, gaps);
        check(dir.path(), name);
        captures.push(capture);
    }
    for folder in ["captures", "recorded"] {
        let found = fs::read_dir(home().join(folder)).unwrap();
        captures.extend(found.map(|entry| entry.unwrap().path()));
    }
    let mut wrong = Vec::new();
    for capture in captures {
        let found = contradictions(HALTWISE.as_ref(), &capture).into_iter();
        wrong.extend(found.map(|text| format!("{}: {text}", capture.display())));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn of_a_guest_every_verb_gives_the_answer_of_tune() {
    let home = home();
    check(&home, "recorded/inside");
    let tuned = said(&home, &["tune"], "recorded/inside").unwrap();
    assert_eq!(tuned["place"], "guest");
    assert!(!tuned["recommended"].is_null(), "{tuned:#}");
}
