//! Records of the tracepoint source for the lab's guests, compared with KVM's own counts. Wake sources are compared in
//! stock kernels (`xtask/src/kernels/scenario.rs`).

use haltwise_core::event::{Halt, Lost};
use haltwise_core::recording::Rung;
use rustix::process::Signal;

use crate::bench::{Bench, has_recorded};
use crate::counted::Recorded;

/// Records a run of the lab from before it starts until after it ended. Nothing but wake-ups and sleeps may be lost, which
/// some kernels count and do not record.
fn recorded(bench: &Bench, options: &str, lab: &str) -> Recorded {
    let recorder = bench.recorder("capture", &format!("--source tracepoints {options}"));
    let lab = bench.lab_ran(lab);
    let output = recorder.end(Signal::INT);
    has_recorded(&output);
    let capture = bench.capture("capture");
    let lost = &capture.info().lost;
    assert!(lost.keys().all(|place| *place == Lost::SCHED), "{lost:?}");
    Recorded { capture, lab }
}

/// Halts, waits, polls and successful polls, as KVM's own statistics count them.
fn assert_agreement(recorded: &Recorded) {
    for counted in recorded.counted() {
        let halts = recorded.halts_of(counted.tid);
        let count = |what: fn(&&Halt) -> bool| halts.iter().filter(what).count() as u64;
        // KVM passes over a HLT whose interrupt is already there: no halt for it.
        assert!(count(|_| true) <= counted.hlts, "{counted:?}");
        assert_eq!(count(|halt| halt.waited), counted.waits, "{counted:?}");
        // A window is unknown until KVM first calls its rule, and then it was 0.
        let polled = count(|halt| halt.window_ns > Some(0));
        assert_eq!(polled, counted.attempted, "{counted:?}");
        let successful = count(|halt| !halt.waited && halt.window_ns > Some(0));
        assert_eq!(successful, counted.successful, "{counted:?}");
        assert!(halts.is_sorted_by_key(Halt::end_ns));
    }
}

#[test]
fn two_vms_at_once_are_counted_exactly() {
    let Some(bench) = Bench::set_up() else { return };
    let recorded = recorded(
        &bench,
        "",
        "pingpong --vms 2 --rounds 3000 --gap exp:60us --name witness",
    );
    assert_agreement(&recorded);
    let info = recorded.capture.info();
    assert_eq!(info.rung, Rung::Tracepoints);
    assert_eq!(recorded.counted().len(), 2);
    for counted in recorded.counted() {
        assert!(info.roster.vms.iter().any(|vm| vm.name == counted.vm));
    }
    assert!(info.missing.iter().any(|it| it.field == "ceiling_ns"));
}

#[test]
fn counts_sum_up_to_the_same_halts() {
    let Some(bench) = Bench::set_up() else { return };
    let options = "--mode counts --interval 100ms";
    let recorded = recorded(&bench, options, "pingpong --vms 2 --rounds 2000");
    for counted in recorded.counted() {
        let rows = recorded.counts_of(counted.tid);
        for row in &rows {
            let wakes: u64 = row.wakes.iter().sum();
            assert_eq!((row.halt_ns.count(), wakes), (row.halts, row.halts));
        }
        let halts: u64 = rows.iter().map(|row| row.halts).sum();
        assert!(halts > 0 && halts <= counted.hlts, "{counted:?}");
        let waited: u64 = rows.iter().map(|row| row.waited).sum();
        assert_eq!(waited, counted.waits, "{counted:?}");
        assert!(recorded.halts_of(counted.tid).is_empty());
    }
}
