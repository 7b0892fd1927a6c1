//! Results that were measured and odd ones made from them, against committed texts; whatever a result holds, its text is
//! made, and fits.

use std::fs;
use std::path::Path;

use haltwise_document::text::{self, Style};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::*;

const RESULTS: [&str; 3] = [
    include_str!("../../../tests/golden/prove/better.json"),
    include_str!("../../../tests/golden/prove/noisy.json"),
    include_str!("../../../tests/golden/prove/same.json"),
];

fn shown(view: &Proof, top: usize, width: usize) -> String {
    let style = Style {
        width,
        colour: false,
    };
    text::render(&document(view, top), style)
}

fn measured(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A result that was interrupted after three rounds, with losses, of VMs that come and go.
fn interrupted() -> Value {
    let mut result = measured(RESULTS[0]);
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
    let mut result = measured(RESULTS[2]);
    let figures = result["figures"].as_array_mut().unwrap();
    figures.retain(|figure| !["cost", "poll-cpu"].contains(&figure["figure"].as_str().unwrap()));
    result["predictions"] = json!({"of_a": [], "of_b": [], "bistable_a": 0, "bistable_b": 0,
        "notes": ["B is not predicted from 12 of 12 blocks under A: no halt slept in them, so the \
                   wake-up latency is unknown; give --calibration or --wake-latency"]});
    result["missing"]["cost"] = json!("polling time was not recorded");
    result
}

#[test]
fn texts_of_results_are_as_committed() {
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/expected/prove");
    for (name, result) in [
        ("better", measured(RESULTS[0])),
        ("same", measured(RESULTS[2])),
        ("interrupted", interrupted()),
        ("blind", blind()),
    ] {
        let view: Proof = serde_json::from_value(result.clone()).unwrap();
        assert_eq!(serde_json::to_value(&view).unwrap(), result, "{name}");
        let text = shown(&view, 20, 80);
        let file = expected.join(format!("{name}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&file, &text).unwrap();
        }
        assert_eq!(text, fs::read_to_string(&file).unwrap(), "{name}");
    }
}

/// Every place of a value that holds nothing else, as a path.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &format!("{path}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (key, item) in fields {
                leaves(item, &format!("{path}/{key}"), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn whatever_a_result_holds_its_page_is_made_and_fits() {
    let strange = [
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(1e300),
        json!(-1e-300),
        json!(""),
        json!("\u{1b}[2J\u{202e}long ".repeat(40)),
        json!(null),
        json!(true),
        json!([]),
    ];
    let mut made = 0;
    for text in RESULTS {
        let result: Value = serde_json::from_str(text).unwrap();
        let mut paths = Vec::new();
        leaves(&result, "", &mut paths);
        // If many paths are alike, the first is enough.
        paths.retain(|path| !path.contains(|c: char| ('1'..='9').contains(&c)));
        for path in paths {
            for strange in &strange {
                let mut result = result.clone();
                *result.pointer_mut(&path).unwrap() = strange.clone();
                let Ok(view) = serde_json::from_value::<Proof>(result) else {
                    continue;
                };
                made += 1;
                for width in [60, 80] {
                    let page = shown(&view, usize::MAX, width);
                    let widest = page.lines().map(UnicodeWidthStr::width).max();
                    assert!(widest <= Some(width), "{path} {strange}: {page}");
                    let steers = |c: char| c == '\u{1b}' || c == '\u{202e}';
                    assert!(!page.contains(steers), "{path} {strange}");
                }
            }
        }
    }
    assert!(made > 300, "{made}");
}
