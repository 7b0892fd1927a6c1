//! One answer, and one figure for one setting: `tune`, `report` and its page say the same of the
//! parameters of a capture, and no document contradicts another.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::tune::{LOADS, record};
use super::{home, ran, scenarios};
use crate::documents::{self, contradictions};

const HALTWISE: &str = env!("CARGO_BIN_EXE_haltwise");

/// JSON document of a verb about a capture, if the verb prints one.
fn said(home: &Path, verb: &[&str], capture: &str) -> Option<Value> {
    let (_, out, _) = ran(home, &[verb, &[capture, "--json"]].concat());
    serde_json::from_str(&out).ok()
}

fn recommended(of: &Value) -> Value {
    let fields = "goal verdict changes follows reason in_force recommended".split(' ');
    fields.map(|name| of[name].clone()).collect()
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
    for verb in [&["report", "--findings"][..], &["report"]] {
        let other = &said(home, verb, capture).unwrap()["recommendation"];
        assert_eq!(
            recommended(other),
            recommended(&tuned),
            "{capture}: {verb:?}"
        );
        let against = &tuned["played"]["against_in_force"];
        let share = against.get("cost_share").cloned().unwrap_or(json!(null));
        assert_eq!(other["cost_share"], share, "{capture}: {verb:?}");
    }
    let page = page(home, capture);
    assert_eq!(
        recommended(&page["recommendation"]),
        recommended(&tuned),
        "{capture}: page"
    );
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

/// For a guest, `report --findings`, `report` and the page have fields of the answer of `tune`, and no others.
#[test]
fn of_a_guest_every_verb_gives_the_answer_of_tune() {
    let home = home();
    let capture = "recorded/inside";
    let tuned = said(&home, &["tune"], capture).unwrap();
    let reported = said(&home, &["report"], capture).unwrap();
    let short = reported["recommendation"].as_object().unwrap();
    let names: Vec<&str> = short.keys().map(String::as_str).collect();
    for name in ["side", "place", "verdict", "in_force", "recommended"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!tuned["recommended"].is_null(), "{tuned:#}");
    for (name, value) in short {
        let of_tune = match name.as_str() {
            "cost_share" => tuned["against_in_force"]["cost_share"].clone(),
            // Not known of a guest.
            "follows" | "figures" => json!(null),
            name => tuned[name].clone(),
        };
        assert_eq!(*value, of_tune, "{name}");
    }
    let explained = said(&home, &["report", "--findings"], capture).unwrap();
    assert_eq!(explained["recommendation"], reported["recommendation"]);
    let page = page(&home, capture);
    assert_eq!(page["recommendation"], reported["recommendation"]);
}
