//! Crashes at every byte, and lines of strangers.

use std::fs;

use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::prove::compare::{Prediction, Verdict};
use haltwise_core::prove::figure::{Figure, Unit};
use haltwise_core::recording::Side;
use haltwise_core::stats::ranks::RankInterval;

use super::super::entry::Kept;
use super::*;
use crate::proof::ProvenSetting;

/// An entry with one prediction of a cost: predicted, measured, and whether within.
pub(crate) fn entry(predicted: f64, measured: f64, within: bool) -> Entry {
    let setting = |spec: &str, halt_poll_ns| {
        let values = Values::default().with(Parameter::HaltPollNs, halt_poll_ns);
        ProvenSetting::new(spec.to_owned(), &values)
    };
    let interval = |value: f64| RankInterval {
        estimate: value,
        low: value - 1.0,
        high: value + 1.0,
        confidence: 0.95,
        rounds: 12,
    };
    Entry {
        schema: 1,
        side: Side::Host,
        utc: "2026-01-01T00:00:00Z".to_owned(),
        hostname: "golden-1".to_owned(),
        kernel: "6.12.0".to_owned(),
        a: setting("off", 0),
        b: setting("kvm:max=50us", 50_000),
        means: "vm-ceiling".to_owned(),
        cpu_pressure: None,
        command: vec!["lab".to_owned()],
        rounds: 12,
        lost: 0,
        verdict: Verdict::Better,
        predictions: vec![Kept {
            of: "b".to_owned(),
            unit: Unit::Nanos,
            noise: 2.0,
            bistable: false,
            prediction: Prediction {
                figure: Figure::Cost,
                predicted,
                measured,
                error: interval(predicted - measured),
                effect: interval(predicted - 100.0),
                measured_effect: interval(measured - 100.0),
                within,
            },
        }],
    }
}

#[test]
fn what_was_added_is_read_back_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new/folder/ledger.jsonl");
    assert!(read(&path).unwrap().entries.is_empty());
    let entries = [entry(10.0, 11.0, true), entry(20.0, 30.0, false)];
    for entry in &entries {
        append(&path, entry).unwrap();
    }
    let lines = read(&path).unwrap();
    assert_eq!((lines.entries.as_slice(), lines.unread), (&entries[..], 0));
}

/// A user who may read a file may lock it: no process waits for that for ever, and the file stays as it is.
#[test]
fn a_locked_ledger_is_waited_for_and_then_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.jsonl");
    append(&path, &entry(1.0, 1.0, true)).unwrap();
    let before = fs::read(&path).unwrap();
    let held = File::open(&path).unwrap();
    rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
    let error = append_within(&path, &entry(2.0, 2.0, true), Duration::ZERO).unwrap_err();
    assert!(error.to_string().ends_with("another process holds it"));
    assert_eq!(fs::read(&path).unwrap(), before);
    drop(held);
    append_within(&path, &entry(2.0, 2.0, true), Duration::ZERO).unwrap();
    assert_eq!(read(&path).unwrap().entries.len(), 2);
}

/// The law of the file: cut it anywhere, add one more, and nothing is lost but the line that was cut.
#[test]
fn a_crash_at_any_byte_costs_at_most_the_last_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.jsonl");
    append(&path, &entry(1.0, 1.0, true)).unwrap();
    let first = fs::read(&path).unwrap().len();
    append(&path, &entry(2.0, 2.0, true)).unwrap();
    let whole = fs::read(&path).unwrap();
    for cut in first..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        append(&path, &entry(3.0, 3.0, true)).unwrap();
        let lines = read(&path).unwrap();
        let predicted: Vec<f64> = lines
            .entries
            .iter()
            .map(|entry| entry.predictions[0].prediction.predicted)
            .collect();
        // All but the line's end is a whole line.
        let (expected, unread) = match cut {
            cut if cut == first => (vec![1.0, 3.0], 0),
            cut if cut + 1 >= whole.len() => (vec![1.0, 2.0, 3.0], 0),
            _ => (vec![1.0, 3.0], 1),
        };
        assert_eq!(
            (predicted, lines.unread),
            (expected, unread),
            "cut at {cut}"
        );
    }
}

#[test]
fn lines_of_strangers_are_counted_and_hurt_nobody() {
    let good = serde_json::to_string(&entry(1.0, 1.0, true)).unwrap();
    let newer = good.replace("\"schema\":1", "\"schema\":3");
    let text = format!("\n  \nnull\n{{}}\n[1,2]\n{newer}\n{good}\n\u{0}\u{7f}\n{good}");
    let lines = parse(text.as_bytes());
    assert_eq!((lines.entries.len(), lines.unread), (2, 5));
    assert_eq!(parse(b"\xff\xfe\n").unread, 1);
}
