//! The interval of a recording is that in which halts were recorded, in every mode and from every source, and no document
//! of the recording contradicts another.

use haltwise_capture::capture::Capture;
use rustix::process::Signal;

use crate::bench::{Bench, haltwise};
use crate::documents::contradictions;
use crate::numbers::numbers;

const HALTING: &str = "interval-halting";
const RESTING: &str = "interval-resting";

/// Modes and sources, each with what takes time to begin and to end.
const WAYS: [(&str, &str); 6] = [
    ("full", ""),
    ("beside", "--exits --profile 997hz"),
    ("counts", "--mode counts --interval 100ms"),
    ("stats", "--mode stats --interval 100ms"),
    ("tracepoints", "--source tracepoints"),
    ("counted", "--source tracepoints --mode counts"),
];

#[test]
fn what_counts_lies_within_the_interval_and_no_share_exceeds_its_whole() {
    let Some(bench) = Bench::set_up() else { return };
    let busy = bench.keep_halting("fixed:300us", HALTING);
    // Its halts are longer than the recordings.
    let resting = bench.keep_halting("fixed:900ms", RESTING);
    for (name, options) in WAYS {
        // This kernel may count wake-ups that it does not record.
        bench.page(&format!(
            "record --json --duration 250ms {options} -o {name}"
        ));
        assert_interval(&bench.capture(name), name);
        let report = bench.page(&format!("report --json {name}"));
        let waited = &report["recording"]["overhead"]["most_waiting_bytes"];
        assert_eq!(
            waited.is_u64(),
            ["full", "beside"].contains(&name),
            "{name}: {waited}"
        );
        let mut found = numbers(&report);
        found.retain(|(_, field, _)| *field == "halted_share");
        assert!(!found.is_empty(), "{name}");
        for (path, _, share) in found {
            assert!((0.0..=1.0).contains(&share), "{name}: {path} = {share}");
        }
        let wrong = contradictions(haltwise(), &bench.path(name));
        assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
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
