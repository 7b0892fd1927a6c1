//! Rows that no recording can hold are left out, counted and reported, and change nothing else.

use std::path::Path;

use haltwise_core::event::{Halt, WindowChange};
use haltwise_core::ids::VmIndex;
use serde_json::Value;

use super::{LENGTH_NS, START_NS, ran, scenarios, write};

/// Verbs that tell of halts, and what their documents say of themselves.
const VERBS: [&[&str]; 7] = [
    &["report", "--json"],
    &["report", "--findings", "--json"],
    &["tune", "--policy", "usual", "--json"],
    &["tune", "--json"],
    &["verify", "--json"],
    &["top", "--once", "--json"],
    &["diff", "--json", "cap"],
];

/// False rows beside the rows of a capture: how many, and what a note says of them.
fn false_rows(halts: &[Halt], changes: &[WindowChange]) -> (Vec<Halt>, Vec<WindowChange>) {
    let halt = halts[halts.len() / 2];
    let late = WindowChange {
        time_ns: START_NS << 8,
        ..changes[0]
    };
    let halts = vec![
        // Bits that turned over: of the length, of the time, of the VM.
        Halt {
            halt_ns: halt.halt_ns | 1 << 50,
            ..halt
        },
        Halt {
            start_ns: halt.start_ns | 1 << 60,
            ..halt
        },
        Halt {
            vm: Some(VmIndex(1 << 20)),
            ..halt
        },
        Halt {
            poll_ns: Some(halt.halt_ns + 1),
            ..halt
        },
        Halt {
            wake_latency_ns: Some(u64::MAX),
            ..halt
        },
        // As long as all of them together.
        Halt {
            start_ns: START_NS,
            halt_ns: LENGTH_NS,
            poll_ns: None,
            ..halt
        },
    ];
    (halts, vec![late])
}

/// JSON document of a verb, and its exit code; `None` if the verb prints no document.
fn document(dir: &Path, words: &[&str], capture: &str) -> (Option<Value>, Option<i32>) {
    let (code, out, _) = ran(dir, &[words, &[capture]].concat());
    (serde_json::from_str(&out).ok(), Some(code))
}

/// All of a document but what it says of the capture as such.
fn figures(value: &mut Value) {
    const OF_CAPTURE: [&str; 8] = [
        "notes",
        "damaged",
        "partial",
        "circumstances",
        "dir",
        "capture",
        "path",
        "a",
    ];
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !OF_CAPTURE.contains(&name.as_str()));
            fields.values_mut().for_each(figures);
        }
        Value::Array(values) => values.iter_mut().for_each(figures),
        _ => {}
    }
}

#[test]
fn false_rows_are_left_out_of_every_document_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = || scenarios::named("transactional");
    write(scenario(), &dir.path().join("cap"));
    let mut edited = scenario();
    let (halts, changes) = false_rows(&edited.facts.halts, &edited.facts.windows);
    edited.facts.halts.extend(halts);
    edited.facts.windows.extend(changes);
    write(edited, &dir.path().join("false"));
    for words in VERBS {
        let (clean, code) = document(dir.path(), words, "cap");
        assert_ne!(code, Some(5), "{words:?}");
        let (found, left) = document(dir.path(), words, "false");
        let expected = code.filter(|&code| code != 0).unwrap_or(5);
        assert_eq!(left, Some(expected), "{words:?}");
        let (mut clean, mut found) = (clean.unwrap(), found.unwrap());
        let text = found.to_string();
        let is_said = text.contains("left out") || text.contains("\"partial\":true");
        assert!(is_said, "{words:?}: {text}");
        figures(&mut clean);
        figures(&mut found);
        assert_eq!(clean, found, "{words:?}");
    }
    let (report, _) = document(dir.path(), VERBS[0], "false");
    let notes = report.unwrap()["recording"]["notes"].to_string();
    for note in [
        "2 rows of table halts left out: its time is outside the recording",
        "1 row of table halts left out: its VM is not in the roster",
        "1 row of table halts left out: poll_ns exceeds halt_ns",
        "1 row of table halts left out: wake_latency_ns exceeds halt_ns by more than a minute",
        "1 row of table halts left out: it overlaps another halt of the same vCPU",
        "1 row of table window_changes left out: its time is outside the recording",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
}
