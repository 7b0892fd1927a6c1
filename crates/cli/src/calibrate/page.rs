//! The costs on a screen.

use haltwise_core::replay::calibration::written::{GapClass, Written};
use haltwise_core::stats::Estimate;
use haltwise_document::{Document, Rows, figures};

use super::recorded::signed;
use crate::number::nanos;

figures! {
    /// A length of sleep. What is uncertain is a text, with its interval.
    struct SleepLength {
        /// How long the thread was left to sleep.
        gap_ns: u64 = Nanos "sleep",
        /// Latency that sleeping adds between signal and sleeper.
        wake_latency: String = Word "wake-up latency",
        /// CPU time of a block and wake-up.
        switch_cpu: String = Word "CPU of a sleep",
    }
}

/// Lays it out. `is_of_kvm`: a capture says what KVM's share is.
pub(crate) fn document(found: &Written, is_of_kvm: bool) -> Document {
    let mut document = Document::new();
    document.fact(
        "measured",
        format!(
            "{} repetitions in {}, CPU {} woken by CPU {}; medians, with the interval that holds the true one in 95 of \
             100 cases",
            found.repetitions,
            nanos(found.elapsed_ns),
            found.vcpu_cpu,
            found.host_cpu
        ),
    );
    let rows: Vec<SleepLength> = found.classes.iter().map(row).collect();
    let columns = ["gap_ns", "wake_latency", "switch_cpu"];
    document.table(
        Rows::new("Costs", &rows, usize::MAX)
            .show(&columns)
            .finish(),
    );
    document.fact(
        "wake-up latency, woken from the sleeper's CPU",
        interval(found.same_cpu_wake_latency_ns),
    );
    document.fact("CPU of a sleep and wake-up", interval(found.switch_cpu_ns));
    document.fact("the same for the waker", interval(found.waker_cpu_ns));
    prices(&mut document, found);
    if !is_of_kvm {
        document.fact(
            "of a vCPU",
            "KVM's own work comes on top, so these are the least that its sleeps cost",
        );
    }
    for note in &found.notes {
        document.note(note.clone());
    }
    document
}

/// In a guest; elsewhere a note says why there are none.
fn prices(document: &mut Document, found: &Written) {
    let all = [
        ("CPU of an exit", found.exit_cpu_ns),
        ("of a timer write", found.timer_write_cpu_ns),
        ("of sending an IPI", found.ipi_cpu_ns),
    ];
    if all.iter().any(|(_, price)| price.is_some()) {
        for (what, price) in all {
            document.fact(what, interval(price));
        }
    }
}

fn row(class: &GapClass) -> SleepLength {
    SleepLength {
        gap_ns: class.gap_ns,
        wake_latency: interval(class.wake_latency_ns),
        switch_cpu: interval(class.switch_cpu_ns),
    }
}

/// `6.12 us (5.98 us to 6.30 us)`. Differences of medians can be negative.
fn interval(of: Option<Estimate>) -> String {
    of.map_or_else(
        || "not measured".to_owned(),
        |of| {
            format!(
                "{} ({} to {})",
                signed(of.median),
                signed(of.low),
                signed(of.high)
            )
        },
    )
}
