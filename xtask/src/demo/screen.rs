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
