//! `haltwise prove --from` on results that were measured, and `haltwise ledger` on one that was kept,
//! against committed texts; and their JSON against their pages.
//!
//! The results are in `prove/`: recorded on a host with two CPUs, with its name taken out. Those of the
//! odd cases are made from them, here.

use std::fs;

use serde_json::{Value, json};

use super::schema::conforms;
use super::{compare, fits, flat, haltwise, home, updates};

const MEASURED: [&str; 5] = ["better", "worse", "same", "noisy", "bistable"];

fn measured(name: &str) -> Value {
    let text = fs::read(home().join(format!("prove/{name}.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// A result that was interrupted after three rounds, with losses, of VMs that come and go.
fn interrupted() -> Value {
    let mut result = measured("better");
    result["partial"] = json!(true);
    result["ended_by"] = json!("SIGINT");
    result["design"]["rounds"] = json!(3);
    result["design"]["warm_up_ns"] = json!(100_000_000);
    result["means"] = json!("host-parameters");
    result["command"] = json!([]);
    result["verdict"] = json!({"says": "too-few-rounds", "needed": 6});
    for figure in result["figures"].as_array_mut().unwrap() {
        figure["differs"] = json!(false);
        figure["effect"]["confidence"] = json!(0.75);
        figure["effect"]["rounds"] = json!(3);
    }
    result["lost"] = json!(41);
    result["ledger"] = Value::Null;
    result["blocks"][1]["lost"] = json!(41);
    for block in 2..10 {
        result["blocks"][block]["notes"] = json!(["VM web\u{1b}[2J-1 ended during the experiment"]);
    }
    result["host"]["knobs_assumed"] = json!(["halt_poll_ns_grow_start"]);
    result
}

fn blind() -> Value {
    let mut result = measured("same");
    let figures = result["figures"].as_array_mut().unwrap();
    figures.retain(|figure| !["cost", "poll-cpu"].contains(&figure["figure"].as_str().unwrap()));
    result["predictions"] = json!({"of_a": [], "of_b": [], "bistable_a": 0, "bistable_b": 0,
        "notes": ["B is not predicted from 12 of 12 blocks under A: no halt slept in them, so the \
                   wake-up latency is unknown; give --calibration or --wake-latency"]});
    result["missing"]["cost"] = json!("polling time was not recorded");
    result
}

fn results() -> impl Iterator<Item = (&'static str, Value)> {
    let made = [("interrupted", interrupted()), ("blind", blind())];
    MEASURED
        .into_iter()
        .map(|name| (name, measured(name)))
        .chain(made)
}

#[test]
fn pages_of_results_are_as_committed() {
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = String::new();
    for (name, result) in results() {
        let file = dir.path().join("result.json");
        fs::write(&file, serde_json::to_vec(&result).unwrap()).unwrap();
        let (text, code) = haltwise(dir.path(), &["prove", "--from", "result.json"]);
        let text = text + &format!("(exit code {})\n", code.unwrap());
        let file = format!("prove/{name}.txt");
        wrong.extend(fits(&file, &text).err());
        if ["better", "same", "interrupted", "blind"].contains(&name) {
            wrong.extend(compare(&file, &text).err());
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn a_result_is_printed_as_it_was_read() {
    for name in MEASURED {
        let file = format!("prove/{name}.json");
        let (text, _) = haltwise(&home(), &["prove", "--from", &file, "--json"]);
        let again: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(again, measured(name), "{name}");
    }
}

/// Results of versions that knew no guests have no fields of them.
#[test]
fn a_result_of_an_earlier_version_is_read() {
    let now = measured("better");
    let mut before = now.clone();
    before.as_object_mut().unwrap().remove("side").unwrap();
    before["cost"].as_object_mut().unwrap().remove("price");
    before["host"]
        .as_object_mut()
        .unwrap()
        .remove("cpu_pressure");
    for name in ["a", "b"] {
        let setting = before[name].as_object_mut().unwrap();
        setting.retain(|name, _| !name.starts_with("guest_"));
        assert_eq!(setting.len(), 5);
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("result.json"), before.to_string()).unwrap();
    let (text, _) = haltwise(dir.path(), &["prove", "--from", "result.json", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), now);
}

#[test]
fn a_file_that_is_no_result_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let newer = json!({"schema": 3}).to_string();
    for (text, reason) in [
        ("", "is not output of `haltwise prove --json`"),
        ("[1]", "is not output of `haltwise prove --json`"),
        ("{\"schema\": 1}", "missing field"),
        (&newer, "has schema 3; this haltwise reads 1 and 2"),
    ] {
        fs::write(dir.path().join("result.json"), text).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_haltwise"))
            .args(["prove", "--from", "result.json"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(reason) && said.contains("hint: "), "{said}");
    }
}

#[test]
fn the_ledger_is_as_committed() {
    let mut wrong = String::new();
    for (file, name) in [
        ("prove/ledger.jsonl", "ledger"),
        ("prove/none", "ledger-empty"),
    ] {
        let (text, code) = haltwise(&home(), &["ledger", "--ledger", file]);
        let text = text + &format!("(exit code {})\n", code.unwrap());
        let page = format!("prove/{name}.txt");
        wrong.extend(compare(&page, &text).err());
        wrong.extend(fits(&page, &text).err());
    }
    let (text, _) = haltwise(
        &home(),
        &["ledger", "--ledger", "prove/ledger.jsonl", "--json"],
    );
    let summary: Value = serde_json::from_str(&text).unwrap();
    let summary = flat(&summary["summary"], 0) + "\n";
    wrong.extend(compare("prove/ledger-summary.json", &summary).err());
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_json_is_as_published() {
    if updates() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("result.json");
    for (_, result) in results() {
        fs::write(&file, serde_json::to_vec(&result).unwrap()).unwrap();
        let said = haltwise(dir.path(), &["prove", "--from", "result.json", "--json"]).0;
        conforms("prove", &serde_json::from_str(&said).unwrap());
    }
    let ledger = ["ledger", "--ledger", "prove/ledger.jsonl", "--json"];
    let (text, _) = haltwise(&home(), &ledger);
    conforms("ledger", &serde_json::from_str(&text).unwrap());
}
