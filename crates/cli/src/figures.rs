//! Figures that results of several verbs share: results of the core, declared beside it, and how a recording
//! was made.

use haltwise_core::account::parts::Parts;
use haltwise_core::account::{Account, Spread};
use haltwise_core::event::{Observable, Vcpu, Vm, WakeSource};
use haltwise_core::hist::together;
use haltwise_core::recording::{Missing, Rung};
use haltwise_core::replay::Doubts;
use haltwise_core::stats::{Interval, total};
use haltwise_core::topology::Distance;
use haltwise_document::figure::named;
use haltwise_document::{Document, Figure, Rows, Unit, Untrusted, figures};
use serde::{Deserialize, Serializer};

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

/// Wake-ups by the distance of the waker, in the order of [`Distance::ALL`].
pub(crate) type Wakers = [u64; Distance::ALL.len()];

pub(crate) const WAKERS: &[Figure] = &named(Distance::NAMED, Unit::Count);

#[expect(clippy::ref_option, reason = "serde passes the field")]
pub(crate) fn by_distance<S: Serializer>(
    counts: &Option<Wakers>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let names = Distance::ALL.map(Distance::as_str).into_iter();
    match counts {
        Some(counts) => to.collect_map(names.zip(*counts)),
        None => to.serialize_none(),
    }
}

figures! {
    /// Halts of one power of two, by their window at entry and by the time that they polled.
    #[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
    pub(crate) struct PolledBar {
        /// The shortest.
        pub(crate) low_ns: u64 = Nanos,
        /// The longest.
        pub(crate) high_ns: u64 = Nanos,
        /// Halts of A whose window at entry is known, by that.
        pub(crate) a_windows: u64 = Count,
        /// The same of B.
        pub(crate) b_windows: u64 = Count,
        /// Polls of A, by their time.
        pub(crate) a_polls: u64 = Count,
        /// The same of B.
        pub(crate) b_polls: u64 = Count,
    }
}

impl PolledBar {
    /// Windows and polled time of two accounts; those that neither has are left out.
    pub(crate) fn of(accounts: [&Account; 2]) -> Vec<Self> {
        let polls = accounts.map(|of| {
            let mut all = of.poll_success_ns.clone();
            all.merge(&of.poll_fail_ns);
            all
        });
        let [a, b] = accounts.map(|of| &of.window_ns);
        let rows = together([a, b, &polls[0], &polls[1]]);
        rows.filter(|(_, counts)| counts.iter().any(|count| *count > 0))
            .map(|(row, [a_windows, b_windows, a_polls, b_polls])| Self {
                low_ns: row.low_ns,
                high_ns: row.high_ns,
                a_windows,
                b_windows,
                a_polls,
                b_polls,
            })
            .collect()
    }

    /// The same as shares; nothing where no halt polled.
    pub(crate) fn show(document: &mut Document, rows: &[Self]) {
        let of = |count: fn(&Self) -> u64| {
            let all = total(rows.iter().map(count));
            move |row: &Self| (all > 0).then(|| count(row) as f64 / all as f64)
        };
        if rows.iter().all(|row| row.a_polls + row.b_polls == 0) {
            return;
        }
        document.heading("Windows and time polled");
        let table = Rows::new("Windows and time polled", rows, usize::MAX)
            .show(&["low_ns"])
            .titled("low_ns", "from")
            .with("A: windows", Unit::Share, of(|row| row.a_windows))
            .with("B: windows", Unit::Share, of(|row| row.b_windows))
            .with("A: polls", Unit::Share, of(|row| row.a_polls))
            .with("B: polls", Unit::Share, of(|row| row.b_polls));
        document.table(table.finish());
    }
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

figures! {
    /// CPU time of a VM between two looks at the threads of its VMM.
    #[derive(Clone, Copy)]
    #[expect(
        clippy::struct_field_names,
        reason = "names of figures say what they count"
    )]
    pub(crate) struct CpuFigures {
        /// All threads of the VMM.
        pub(crate) cpu_percent: f64 = CpuPercent "CPU",
        /// The guest, as the kernel's tick samples it; `null` where the kernel counts no guest time, as where KVM
        /// virtualises in software.
        pub(crate) guest_cpu_percent: Option<f64> = CpuPercent "guest",
        /// The rest of the threads that run vCPUs, without polling: exits, and what KVM and the VMM do about them.
        pub(crate) exits_cpu_percent: Option<f64> = CpuPercent "exits",
        /// Threads of the VMM that run no vCPU.
        pub(crate) vmm_cpu_percent: f64 = CpuPercent "VMM",
    }
}

impl CpuFigures {
    /// `None` where the CPU time of the vCPUs' threads was not recorded.
    pub(crate) fn of<'a>(
        vm: &Vm,
        vcpus: impl Iterator<Item = &'a Vcpu>,
        (halts, poll_cpu_percent): (u64, Option<f64>),
    ) -> Option<Self> {
        let is_seen = vm.observable == Observable::Yes;
        let no_halt = (halts == 0 && is_seen).then_some(0.0);
        let polling = poll_cpu_percent.or(no_halt);
        let times = vcpus.map(|vcpu| vcpu.time);
        let threads = vm.threads.as_ref()?;
        let spent = threads.cpu_use(times, polling.map(|percent| percent / 100.0))?;
        let percent = |cpus: f64| cpus * 100.0;
        Some(Self {
            cpu_percent: percent(spent.all),
            guest_cpu_percent: spent.guest.map(percent),
            exits_cpu_percent: spent.exits.map(percent),
            vmm_cpu_percent: percent(spent.vmm),
        })
    }
}

#[cfg(test)]
mod test {
    /// The crate for documents has its own formatter of times, since it knows nothing of ours.
    #[test]
    fn a_time_has_one_form() {
        use haltwise_core::units::Nanos;
        for exponent in 0..40_u32 {
            let ns = 3_u64.pow(exponent);
            assert_eq!(crate::number::nanos(ns), Nanos(ns).to_string());
        }
    }
}
