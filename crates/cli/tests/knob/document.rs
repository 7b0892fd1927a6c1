//! `docs/status-json.md` names every field that apply, undo and status print.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use haltwise_host::knob::BASELINE;

use super::{CUT_OFF, Host};

fn fields(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| fields(item, into)),
        Value::Object(map) => {
            for (name, value) in map {
                into.insert(name.clone());
                fields(value, into);
            }
        }
        _ => {}
    }
}

#[test]
fn every_field_is_described() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/status-json.md");
    let text = fs::read_to_string(path).unwrap();
    let host = Host::new("6.12.8-golden");
    host.set(BASELINE, CUT_OFF);
    let mut names = BTreeSet::new();
    for line in [
        "status --json",
        "apply --json --yes --persist --set halt_poll_ns=80us --set halt_poll_ns_grow=2",
        "status --json",
        "apply --json --set halt_poll_ns=80us",
        "undo --json",
    ] {
        let (_, out, _) = host.run(line);
        if !out.is_empty() {
            fields(&serde_json::from_str(&out).unwrap(), &mut names);
        }
    }
    assert!(names.len() > 30, "{names:?}");
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !text.contains(&format!("`{name}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "not in docs/status-json.md: {missing:?}"
    );
}
