//! The demo's last screen: before, predicted, after.

use haltwise_core::units::Nanos;

use crate::say;

pub(super) struct Figures {
    /// Polling, as a share of one CPU.
    pub(super) poll: f64,
    pub(super) thread: f64,
    pub(super) mean_ns: f64,
    pub(super) p99_ns: f64,
    pub(super) halts_per_s: f64,
}

pub(super) fn show(before_ns: u64, after_ns: u64, [was, will, is]: [&Figures; 3]) {
    say::step("before, predicted, after");
    say::note(&format!(
        "{:<27} {:>8} {:>12} {:>13} {:>9} {:>8}",
        "", "polling", "vCPU thread", "wake-up mean", "p99", "halts/s"
    ));
    let rows = [
        ("before", before_ns, was),
        ("predicted", after_ns, will),
        ("after", after_ns, is),
    ];
    for (when, ceiling_ns, of) in rows {
        let ceiling = format!("{when:<10} ceiling {}", Nanos(ceiling_ns));
        say::note(&format!(
            "{ceiling:<27} {:>6.1} % {:>10.1} % {:>10.1} us {:>6.1} us {:>8.0}",
            of.poll * 100.0,
            of.thread * 100.0,
            of.mean_ns / 1e3,
            of.p99_ns / 1e3,
            of.halts_per_s
        ));
    }
    say::note("polling and the vCPU's thread are in % of one CPU; wake-ups count over all halts");
}

/// Says that the machine was busy, if it was.
pub(super) fn preempted(share: f64) {
    if share >= 0.05 {
        say::note(&format!(
            "another task wanted the CPU in {:.0} % of the polls of the first recording, which ended them: this machine \
             is busy, and both figures are of a busy machine",
            share * 100.0
        ));
    }
}

/// More of what was measured is a difference worth a reason.
const CLOSE: f64 = 0.1;

/// Says which figures were not predicted, and by what their parts differ: the wake-up latency, and the CPU time of a
/// block as it was calibrated and as it was measured now.
pub(super) fn differences([will, is]: [&Figures; 2], block_ns: [f64; 2]) {
    let differs = |will: f64, is: f64| (will - is).abs() > CLOSE * is.abs();
    if differs(will.thread, is.thread) {
        let [calibrated, measured] = block_ns.map(|ns| ns / 1e3);
        say::note(&format!(
            "the vCPU's thread took {:.1} % instead of {:.1} %: a block and wake-up took {measured:.1} us of CPU, and \
             was calibrated at {calibrated:.1} us",
            is.thread * 100.0,
            will.thread * 100.0
        ));
    }
    if differs(will.mean_ns, is.mean_ns) {
        say::note(&format!(
            "wake-ups took {:.1} us instead of {:.1} us: hardly any sleep of this length was recorded before, so they \
             were predicted from others and from the calibration",
            is.mean_ns / 1e3,
            will.mean_ns / 1e3
        ));
    }
}
