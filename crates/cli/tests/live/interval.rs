//! The interval of a recording is that in which halts were recorded, in every mode and from every source.

use std::process::Command;

use haltwise_capture::capture::Capture;
use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Bench, haltwise, has_recorded};

const HALTING: &str = "interval-halting";
const RESTING: &str = "interval-resting";

/// Modes and sources, each with what takes time to begin and to end.
const WAYS: [(&str, &[&str]); 6] = [
    ("full", &[]),
    ("beside", &["--exits", "--profile", "997hz"]),
    ("counts", &["--mode", "counts", "--interval", "100ms"]),
    ("stats", &["--mode", "stats", "--interval", "100ms"]),
    ("tracepoints", &["--source", "tracepoints"]),
    ("counted", &["--source", "tracepoints", "--mode", "counts"]),
];

/// Every number below `value` whose name says that it is a share of time.
fn shares(value: &Value, path: &str, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                if let (true, Some(share)) = (name == "halted_share", value.as_f64()) {
                    found.push((path.clone(), share));
                }
                shares(value, &path, found);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                shares(value, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn what_counts_lies_within_the_interval_and_no_share_exceeds_its_whole() {
    let Some(bench) = Bench::set_up() else { return };
    let busy = bench.keep_halting("fixed:300us", &["--name", HALTING]);
    // Its halts are longer than the recordings.
    let resting = bench.keep_halting("fixed:900ms", &["--name", RESTING]);
    Bench::wait_for(HALTING);
    Bench::wait_for(RESTING);
    for (name, options) in WAYS {
        let output = Command::new(haltwise())
            .args(["record", "--json", "--duration", "250ms"])
            .args(options)
            .arg("-o")
            .arg(bench.path(name))
            .output()
            .unwrap();
        // This kernel may count wake-ups that it does not record.
        has_recorded(&output);
        assert_interval(&Capture::open(&bench.path(name)).unwrap(), name);
        let report = Command::new(haltwise())
            .args(["report", "--json"])
            .arg(bench.path(name))
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let waited = &report["recording"]["overhead"]["most_waiting_bytes"];
        assert_eq!(
            waited.is_u64(),
            ["full", "beside"].contains(&name),
            "{name}: {waited}"
        );
        let mut found = Vec::new();
        shares(&report, "", &mut found);
        assert!(!found.is_empty(), "{name}");
        for (path, share) in found {
            assert!((0.0..=1.0).contains(&share), "{name}: {path} = {share}");
        }
    }
    busy.end(Signal::TERM);
    resting.end(Signal::TERM);
}

fn assert_interval(capture: &Capture, name: &str) {
    let info = capture.info();
    let (start_ns, ended) = (info.clock.start_monotonic_ns, info.ended.as_ref().unwrap());
    assert_eq!(ended.by, "duration", "{name}");
    assert!(ended.time_ns - start_ns >= 250_000_000, "{name}");
    let inside = |time_ns: u64| (start_ns..=ended.time_ns).contains(&time_ns);
    let mut rows = 0;
    for halt in capture.halts().unwrap().map(Result::unwrap) {
        rows += 1;
        assert!(inside(halt.end_ns()), "{name}: {start_ns} {halt:?}");
    }
    for row in capture.halt_counts().unwrap().map(Result::unwrap) {
        rows += 1;
        let from_ns = row.time_ns - row.interval_ns;
        assert!(inside(row.time_ns) && inside(from_ns), "{name}: {row:?}");
    }
    for change in capture.window_changes().unwrap().map(Result::unwrap) {
        assert!(inside(change.time_ns), "{name}: {change:?}");
    }
    assert!(rows > 0, "{name}");
}
