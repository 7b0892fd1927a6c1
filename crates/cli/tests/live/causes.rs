//! Sources and times of wake-ups, compared with the actions of the lab.

use std::collections::BTreeMap;

use haltwise_core::event::{CeilingSource, WakeSource};

use crate::bench::Bench;
use crate::counted::Recorded;

fn sources(recorded: &Recorded) -> BTreeMap<WakeSource, usize> {
    let mut sources = BTreeMap::new();
    for counted in recorded.counted() {
        for halt in recorded.halts_of(counted.tid) {
            *sources.entry(halt.wake).or_default() += 1;
        }
    }
    sources
}

#[test]
#[ignore = "long: make test-long"]
fn each_guest_is_woken_by_what_wakes_it() {
    for (guest, expected) in [
        ("pingpong --cap 0", WakeSource::Device),
        ("pingpong --cap 400us", WakeSource::Device),
        ("tick --cap 0", WakeSource::Timer),
        ("tick --cap 400us --gap fixed:100us", WakeSource::Timer),
        ("tick-pit", WakeSource::Timer),
        ("tick-pit --ioapic --cap 0", WakeSource::Timer),
        (
            "tick-pit --ioapic --cap 2ms --gap fixed:300us",
            WakeSource::Timer,
        ),
        ("pingpong --ioapic --cap 0", WakeSource::Device),
        ("pingpong --ioapic --cap 400us", WakeSource::Device),
        ("ipi --cap 0", WakeSource::Ipi),
        ("ipi --cap 400us", WakeSource::Ipi),
    ] {
        let Some(bench) = Bench::set_up() else { return };
        let recorded = bench.record("", &format!("{guest} --rounds 500"));
        let sources = sources(&recorded);
        let all: usize = sources.values().sum();
        let right = sources.get(&expected).copied().unwrap_or(0);
        // The start and the stop of a guest are wake-ups of another kind: a few of 500.
        assert!(all >= 250 && right + 8 >= all, "{guest}: {sources:?}");
    }
}

fn rounds(csv: &str) -> Vec<(u64, u64)> {
    let mut lines = csv.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|h| *h == name).unwrap();
    let (signal, answer) = (column("signal_ns"), column("answer_ns"));
    lines
        .map(|line| {
            let cells: Vec<u64> = line
                .split(',')
                .map(|cell| cell.parse().unwrap_or(0))
                .collect();
            (cells[signal], cells[answer])
        })
        .collect()
}

#[test]
fn each_wake_event_lies_between_the_labs_signal_and_its_answer() {
    let Some(bench) = Bench::set_up() else { return };
    let csv = bench.path("rounds.csv");
    let csv = csv.to_str().unwrap();
    let line = format!("pingpong --rounds 2000 --gap fixed:100us --cap 0 --rounds-out {csv}");
    let recorded = bench.record("", &line);
    let rounds = rounds(&std::fs::read_to_string(csv).unwrap());
    assert_eq!(rounds.len(), 2000);
    let halts = recorded.halts_of(recorded.counted()[0].tid);
    let (mut matched, mut told_late) = (0, 0);
    for halt in halts.iter().filter(|halt| halt.waited) {
        let Some(latency) = halt.wake_latency_ns else {
            continue;
        };
        let woken = halt.end_ns() - latency;
        let after = rounds.partition_point(|(signal, _)| *signal <= woken);
        let Some((signal, answer)) = after.checked_sub(1).map(|i| rounds[i]) else {
            continue;
        };
        assert!(signal <= woken, "{halt:?}");
        // The vCPU ran again before its answer could be seen.
        if woken <= answer && halt.end_ns() <= answer {
            matched += 1;
        } else if woken <= answer {
            told_late += 1;
        }
    }
    // Only a thread that lost its CPU between KVM's last look at the clock and the tracepoint is told
    // late. One may have lost it to the hypervisor below, which the lab cannot count.
    let lost_its_cpu = recorded.counted()[0].involuntary + 1;
    assert!(
        told_late <= lost_its_cpu,
        "{told_late} halts end after their answers, and the vCPU lost its CPU {lost_its_cpu} times"
    );
    assert!(
        matched >= 1_900,
        "{matched} of 2000 rounds have their wake-up in the recording"
    );
}

#[test]
fn a_cap_is_the_ceiling_and_is_named_as_its_source() {
    for (cap, expected) in [
        ("--cap 123us", Some((123_000, CeilingSource::Cap))),
        ("", None),
    ] {
        let Some(bench) = Bench::set_up() else { return };
        let recorded = bench.record("", &format!("pingpong --rounds 300 {cap}"));
        let halts = recorded.halts_of(recorded.counted()[0].tid);
        assert!(!halts.is_empty());
        for halt in halts {
            match expected {
                Some((ns, source)) => {
                    assert_eq!((halt.ceiling_ns, halt.ceiling_source), (Some(ns), source));
                }
                None => assert_eq!(halt.ceiling_source, CeilingSource::Param),
            }
        }
    }
}
