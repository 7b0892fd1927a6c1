//! The printed documents have the fields and types of their published schemas.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use super::{haltwise, home, ran, scenarios};

/// Where the program has written its schemas.
static PUBLISHED: LazyLock<PathBuf> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("published");
    fs::create_dir_all(&dir).unwrap();
    let mut pages = Command::new(env!("CARGO_BIN_EXE_haltwise"));
    assert!(pages.arg("pages").arg(&dir).status().unwrap().success());
    dir
});

/// Asserts that the printed JSON has the types of the published JSON Schema, and no field that the schema lacks.
pub(super) fn conforms(verb: &str, json: &Value) {
    let schema = PUBLISHED.join(format!("{verb}.schema.json"));
    let schema = fs::read_to_string(schema).unwrap();
    let mut wrong = Vec::new();
    check(
        verb,
        &serde_json::from_str(&schema).unwrap(),
        json,
        &mut wrong,
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn check(at: &str, schema: &Value, json: &Value, wrong: &mut Vec<String>) {
    let kind = match json {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => vec![kind.as_str().unwrap_or_default()],
    };
    if !kinds.contains(&kind) {
        wrong.push(format!("{at} is {kind}, and not {kinds:?}"));
    }
    let none = serde_json::Map::new();
    let properties = schema["properties"].as_object();
    // The fields of such an object depend on what it says.
    let is_free = properties.is_none() && json.is_object();
    let properties = properties.unwrap_or(&none);
    if is_free {
        return;
    }
    for (key, value) in json.as_object().unwrap_or(&none) {
        match properties.get(key) {
            Some(schema) => check(&format!("{at}.{key}"), schema, value, wrong),
            None => wrong.push(format!("{at}.{key} is not declared")),
        }
    }
    if let Some(fields) = json.as_object() {
        let missing = properties.keys().filter(|key| !fields.contains_key(*key));
        wrong.extend(missing.map(|key| format!("{at}.{key} is not printed")));
    }
    if let (Some(items), Some(of)) = (json.as_array(), schema.get("items")) {
        for item in items {
            check(&format!("{at}[]"), of, item, wrong);
        }
    }
}

/// A policy of the host, and one of a guest.
const REPLAY: [&str; 5] = ["tune", "--policy", "kvm", "--policy", "guest-haltpoll"];

#[test]
fn every_document_of_a_capture_is_as_published() {
    for scenario in scenarios::all() {
        let capture = format!("captures/{}", scenario.name);
        for (name, words) in [
            ("report", &["report"][..]),
            ("explain", &["report", "--findings"]),
            ("verify", &["verify"]),
            ("tune", &["tune"]),
            ("replay", &REPLAY),
            ("top", &["top", "--once"]),
        ] {
            let (_, text, _) = ran(&home(), &[words, &[&capture, "--json"]].concat());
            // Commands that play halts refuse captures without any.
            let plays = ["verify", "tune", "replay"].contains(&name);
            let may_refuse = plays && ["counts", "kvm-stats", "no-halts"].contains(&scenario.name);
            if !text.is_empty() || !may_refuse {
                conforms(name, &serde_json::from_str(&text).unwrap());
            }
        }
        let (text, _) = haltwise(&home(), &["diff", &capture, "captures/cut", "--json"]);
        conforms("diff", &serde_json::from_str(&text).unwrap());
    }
}
