//! Times of wake-ups, compared with the actions of the lab. What woke each guest, and its ceiling, are compared in stock
//! kernels (`xtask/src/kernels/scenario.rs`).

use crate::bench::Bench;

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
