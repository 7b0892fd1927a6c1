//! The rounds written by `--rounds-out`, and a calibration of one class.

use haltwise_core::units::Nanos;
use haltwise_lab::calibrate::{Plan, calibrate};
use haltwise_lab::clock::{allowed_cpus, now_ns};
use haltwise_lab::event::Event;

use crate::lab::{kvm, run};

#[test]
fn rounds_are_written_in_monotonic_time() {
    let Some(()) = kvm() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rounds.csv");
    let before = now_ns();
    let args = "pingpong-stamped --vms 2 --vcpus 2 --rounds 50 --gap uniform:100us:300us";
    let outcome = run(&format!("{args} --rounds-out {}", file.display()));
    let after = now_ns();
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("vm,vcpu,round,gap_ns,signal_ns,woke_ns,answer_ns")
    );
    let rows: Vec<Vec<u64>> = lines
        .map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect())
        .collect();
    assert_eq!(rows.len(), 2 * 2 * 50);
    for row in &rows {
        let [_, _, _, gap, signal, woke, answer] = row[..] else {
            panic!("{row:?}");
        };
        assert!(gap >= 100_000, "no gap is shorter than drawn: {row:?}");
        assert!(
            before < signal && signal < answer && answer < after,
            "{row:?}"
        );
        // The stamp is converted by two readings of both clocks, each good to some microseconds.
        assert!(
            signal < woke + 100_000 && woke < answer + 100_000,
            "{row:?}"
        );
    }
    for pair in rows.windows(2).filter(|pair| pair[0][..2] == pair[1][..2]) {
        assert_eq!(pair[1][2], pair[0][2] + 1, "rounds in order");
        assert_eq!(
            pair[1][4] - pair[1][3],
            pair[0][6],
            "a gap begins at the answer"
        );
    }
    let latencies = outcome
        .vms
        .iter()
        .map(|vm| vm.wake_latency_ns.unwrap().count);
    assert_eq!(latencies.sum::<u64>(), 200);
}

#[test]
fn a_calibration_reports_what_it_could_measure_and_what_not() {
    let Some(()) = kvm() else { return };
    let cpus = allowed_cpus().unwrap();
    let plan = Plan {
        gaps: vec![Nanos(50_000)],
        repetitions: 2,
        // However busy the host is.
        budget: Nanos(3_600_000_000_000),
        ..Plan::new(true, *cpus.last().unwrap(), cpus[0])
    };
    let mut heard = Vec::new();
    let never = Event::new().unwrap();
    let found = calibrate(&plan, &never, |done, all| heard.push((done, all))).unwrap();
    assert_eq!(heard, [(0, 2), (1, 2), (2, 2)]);
    assert_eq!(found.classes.len(), 1);
    assert_eq!(found.classes[0].gap_ns, 50_000);
    assert!(found.classes[0].signal_to_guest_blocked_ns.is_some());
    let polled = found.classes[0]
        .wake_latency_ns
        .is_some_and(|e| e.samples == 2);
    assert!(polled || !found.notes.is_empty(), "a busy CPU is named");
    // Interrupted before it began: nothing done, and it says so.
    let now = Event::new().unwrap();
    now.signal().unwrap();
    let found = calibrate(&plan, &now, |_, _| ()).unwrap();
    assert_eq!(found.repetitions, 0);
    assert!(
        found.notes[0].starts_with("ended early"),
        "{:?}",
        found.notes
    );
}
