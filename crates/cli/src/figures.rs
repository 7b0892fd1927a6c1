//! Figures that results of several verbs share: results of the core, declared beside it, and how a recording
//! was made.

use haltwise_core::account::Spread;
use haltwise_core::account::parts::Parts;
use haltwise_core::event::WakeSource;
use haltwise_core::recording::{Missing, Rung};
use haltwise_core::replay::Doubts;
use haltwise_core::stats::Interval;
use haltwise_document::figure::named;
use haltwise_document::{Document, Figure, Unit, Untrusted, figures};
use serde::Serializer;

use crate::reading::recording::Recording;
use crate::words;

figures! {
    pub(crate) const SPREAD: Spread {
        /// The median.
        p50: u64 = Nanos,
        /// 95 of 100 are at most this.
        p95: u64 = Nanos,
        /// 99 of 100 are at most this.
        p99: u64 = Nanos,
        /// The largest.
        max: u64 = Nanos,
    }
}

figures! {
    pub(crate) const PARTS: Parts {
        /// Polled, and woken by that.
        poll_success_ns: u64 = Nanos,
        /// Failed polls: the vCPU slept afterwards.
        poll_fail_ns: u64 = Nanos,
        /// Slept: no work of the host.
        sleep_ns: u64 = Nanos,
        /// From the wake event until the vCPU ran.
        wake_latency_ns: u64 = Nanos,
        /// Woken before schedule().
        turned_back_ns: u64 = Nanos,
        /// Not known.
        unknown_ns: u64 = Nanos,
    }
}

figures! {
    pub(crate) const INTERVAL: Interval {
        /// The estimate.
        value: f64 = Real,
        /// Lower end of the interval; `null` where nothing bounds it.
        low: f64 = Real,
        /// Upper end of the interval; `null` where nothing bounds it.
        high: f64 = Real,
    }
}

/// Halts by what ended them, in the order of [`WakeSource::ALL`].
pub(crate) type Wakes = [u64; WakeSource::ALL.len()];

pub(crate) const WAKES: &[Figure] = &named(WakeSource::NAMED, Unit::Count);

pub(crate) fn wakes(counts: Wakes) -> impl Iterator<Item = (&'static str, u64)> {
    let sources = WakeSource::ALL.map(WakeSource::as_str);
    sources.into_iter().zip(counts)
}

pub(crate) fn by_source<S: Serializer>(counts: &Wakes, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(wakes(*counts))
}

figures! {
    /// On how many halts an assumption rests.
    pub(crate) const DOUBTS: Doubts {
        /// The poll was preempted, and is replayed as preempted after the same time.
        poll_cut: u64 = Count,
        /// Their wake source is not known.
        wake_unknown: u64 = Count,
        /// It is not known how their wake events move with the halt.
        arrival_assumed: u64 = Count,
        /// Their gap was guessed: the wake-up latency was not recorded.
        gap_guessed: u64 = Count,
        /// They slept for a time of which no wake-up was recorded; 0 of a `replay`, where that depends on the policy.
        latency_guessed: u64 = Count,
        /// Fewer than sixteen such wake-ups were recorded, and none measured; likewise.
        latency_thin: u64 = Count,
        /// Fewer than sixteen such wake-ups were recorded, and these woke as calibrated or given; likewise.
        latency_calibrated: u64 = Count,
    }
}

figures! {
    /// A field that a recording cannot hold.
    pub(crate) const MISSING: Missing {
        /// The field, as the capture names it.
        field: String = Name,
        /// Why it is missing.
        reason: String = Name,
    }
}

figures! {
    /// How the facts were obtained, and what is missing from them.
    #[derive(Clone)]
    pub(crate) struct Source {
        /// Where the facts come from: `bpf` (BPF programs), `perf` (tracepoints), `stats` (KVM's counters), `import`.
        pub(crate) rung: Rung = Word,
        /// The host's name.
        pub(crate) host: String = Name,
        /// Its kernel's release.
        pub(crate) kernel: String = Name,
        /// VMs that were seen.
        pub(crate) vms: usize = Count,
        /// Length.
        pub(crate) duration_ns: u64 = Nanos,
        /// The recorder did not end the recording itself.
        pub(crate) cut: bool = Flag,
        /// Events lost in all.
        pub(crate) lost: u64 = Count,
        /// Fields that this recording cannot hold.
        pub(crate) missing: Vec<Missing> = List(MISSING),
        /// Other findings of the reader of the capture.
        pub(crate) notes: Vec<String> = Words,
    }
}

impl Source {
    pub(crate) fn of(recording: &Recording) -> Self {
        let reported = recording.reported.clone();
        Self {
            rung: reported.rung,
            host: recording.hostname(),
            kernel: recording.kernel(),
            vms: recording.info.roster.vms.len(),
            duration_ns: reported.duration_ns,
            cut: reported.cut,
            lost: reported.lost,
            missing: reported.missing,
            notes: reported.notes,
        }
    }

    /// Says what is missing of fields that begin so, and what else must be known of the recording.
    pub(crate) fn note(&self, document: &mut Document, field: &str) {
        words::of_recording(self.lost, self.cut).for_each(|note| document.note(note));
        let missing = self.missing.iter().filter(|it| it.field.starts_with(field));
        missing.for_each(|it| document.note(Untrusted::from(&it.reason)));
        self.notes
            .iter()
            .for_each(|note| document.note(Untrusted::from(note)));
    }
}

#[cfg(test)]
mod test;
