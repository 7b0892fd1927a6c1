//! A calibration as JSON, declared beside it, and on a screen: `calibrate` and the lab write it, `--calibration` reads it.

use haltwise_core::replay::calibration::written::{GapClass, Measured, Sleeper, Written};
use haltwise_core::stats::Estimate;
use haltwise_document::{Document, Rows, figures};

use super::recorded::signed;
use crate::number::nanos;

pub(crate) const ABOUT: &[&str] = &[
    "`--calibration FILE` of `tune`, `prove` and `report` takes it, and what `haltwise-lab calibrate --json` \
     prints too.",
    "Each repetition gives one value of every cost; what stands here is their median. `null` where polling was \
     preempted in every repetition, or where two threads have nothing to measure.",
    "Times are nanoseconds, and their names end in `_ns`. Differences of medians can be negative.",
];

figures! {
    const ESTIMATE: Estimate {
        /// The sample median.
        median: f64 = Real,
        /// Lower end of the interval that holds the true median in 95 of 100 cases.
        low: f64 = Real,
        /// Upper end of that interval.
        high: f64 = Real,
        /// Repetitions that gave a value.
        samples: usize = Count,
    }
}

figures! {
    /// Costs of one length of sleep.
    const CLASS: GapClass {
        /// How long it was left to sleep.
        gap_ns: u64 = Nanos,
        /// Latency that sleeping adds between signal and sleeper.
        wake_latency_ns: Option<Estimate> = Record(ESTIMATE),
        /// 32 quantiles of that over single wake-ups, in an order that mixes them; empty of vCPUs.
        wake_latency_quantiles_ns: Vec<u64> = Words,
        /// From the signal until a sleeper ran.
        signal_to_guest_blocked_ns: Option<Estimate> = Record(ESTIMATE),
        /// From the signal until a poller saw it.
        signal_to_guest_polled_ns: Option<Estimate> = Record(ESTIMATE),
        /// CPU time of the sleeper for one block and wake-up.
        switch_cpu_ns: Option<Estimate> = Record(ESTIMATE),
        /// CPU time that waking a sleeper costs the waker beyond that of waking a poller.
        waker_cpu_ns: Option<Estimate> = Record(ESTIMATE),
    }
}

figures! {
    /// Cost of sleeping and waking on a host.
    pub(crate) const CALIBRATION: Written {
        /// Version of this layout: 1.
        schema: u32 = Number,
        /// Kind of sleeper: `vcpu` (the lab) or `thread` (`haltwise calibrate`).
        sleeper: Sleeper = Word,
        /// CPU of what slept.
        vcpu_cpu: u32 = Number,
        /// CPU of the thread that woke it.
        host_cpu: u32 = Number,
        /// Repetitions done.
        repetitions: u32 = Count,
        /// How long all of them took.
        elapsed_ns: u64 = Nanos,
        /// Costs by length of sleep, ascending.
        classes: Vec<GapClass> = List(CLASS),
        /// The wake-up latency where the waker runs on the sleeper's CPU, which is not idle then: the least that a wake-up
        /// takes. `null` of vCPUs.
        same_cpu_wake_latency_ns: Option<Estimate> = Record(ESTIMATE),
        /// CPU time of the sleeper for one block and wake-up, over all lengths.
        switch_cpu_ns: Option<Estimate> = Record(ESTIMATE),
        /// The same of the waker.
        waker_cpu_ns: Option<Estimate> = Record(ESTIMATE),
        /// CPU time of one exit that KVM handles by itself: CPUID less an empty loop. Of `vcpu` that of the host's
        /// guests; of `thread` that of the guest in which it was measured, `null` where CPUID reports no hypervisor.
        exit_cpu_ns: Option<Estimate> = Record(ESTIMATE),
        /// CPU time of one write of the CPU's timer, in a guest: a timer armed 100 us ahead and disarmed, less one armed
        /// an hour ahead and disarmed, by two. `null` of vCPUs.
        timer_write_cpu_ns: Option<Estimate> = Record(ESTIMATE),
        /// CPU time that an IPI takes its sender, in a guest: a signal to a thread that runs on the other CPU, less one
        /// that it has blocked. Without the receiver's interrupt. `null` of vCPUs.
        ipi_cpu_ns: Option<Estimate> = Record(ESTIMATE),
        /// By how much vCPUs' wake-ups took longer than threads', as sleeps of a capture have shown; the costs contain it.
        /// `null` where none have.
        kvm_ns: Option<Estimate> = Record(ESTIMATE),
        /// The host: `unix_ns` (when), `kernel_release`, `cpu_model`, `idle` (driver, governor, enabled states).
        host: Option<Measured> = Object,
        /// From signal to answer where every poll succeeds; `null` of threads.
        polled_round_trip_ns: Option<Estimate> = Record(ESTIMATE),
        /// Measurements that could not be made, and why.
        notes: Vec<String> = Words,
    }
}

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
