//! A calibration as JSON, declared beside it: `calibrate` and the lab write it, `--calibration` reads it.
//! Only the page of documentation and the schema are made from the declaration.

use haltwise_core::replay::calibration::written::{GapClass, Measured, Sleeper, Written};
use haltwise_core::stats::Estimate;
use haltwise_document::figures;

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
