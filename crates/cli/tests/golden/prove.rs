//! `haltwise prove --history` on one that was kept, against committed texts; results of `haltwise prove` against their published
//! form. The results are in `prove/`: recorded on a host with two CPUs, with its name taken out.

use std::fs;

use serde_json::{Value, json};

use super::schema::conforms;
use super::{compare, flat, haltwise, home, prints, ran};

#[test]
fn a_file_that_is_no_result_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("result.json");
    let page = dir.path().join("page.html");
    let newer = json!({"schema": 3}).to_string();
    for (text, reason) in [
        ("", "is not output of `haltwise prove --json`"),
        ("[1]", "is not output of `haltwise prove --json`"),
        ("{\"schema\": 1}", "missing field"),
        (&newer, "has schema 3; this haltwise reads 1 and 2"),
    ] {
        fs::write(&file, text).unwrap();
        let [page, file] = [&page, &file].map(|path| path.to_str().unwrap());
        let words = ["report", "captures/bursty", "--html", page, "--proof", file];
        let (code, _, said) = ran(&home(), &words);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(reason) && said.contains("hint: "), "{said}");
    }
}

const HISTORY: &str = "prove --history --ledger prove/ledger.jsonl --json";

#[test]
fn the_ledger_is_as_committed() {
    let mut wrong = String::new();
    for (file, name) in [
        ("prove/ledger.jsonl", "ledger"),
        ("prove/none", "ledger-empty"),
    ] {
        let page = format!("prove/{name}.txt");
        wrong += &prints(&home(), &page, &["prove", "--history", "--ledger", file]);
    }
    let (text, _) = haltwise(&home(), &HISTORY.split(' ').collect::<Vec<_>>());
    let summary: Value = serde_json::from_str(&text).unwrap();
    let summary = flat(&summary["summary"], 0) + "\n";
    wrong.extend(compare("prove/ledger-summary.json", &summary).err());
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_json_is_as_published() {
    for name in ["better", "worse", "same", "noisy", "bistable"] {
        let result = fs::read(home().join(format!("prove/{name}.json"))).unwrap();
        conforms("prove", &serde_json::from_slice(&result).unwrap());
    }
    let (text, _) = haltwise(&home(), &HISTORY.split(' ').collect::<Vec<_>>());
    conforms("ledger", &serde_json::from_str(&text).unwrap());
}
