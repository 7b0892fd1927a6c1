//! Result of a report: each figure with its name, unit and meaning.

use haltwise_core::account::Spread;
use haltwise_core::account::idle::StateUse;
use haltwise_core::account::parts::Parts;
use haltwise_core::account::worth::Worth;
use haltwise_core::event::CeilingSource;
use haltwise_core::hist::Octave;
use haltwise_core::identity::Identity;
use haltwise_core::ids::VmmKind;
use haltwise_core::recording::{Missing, Mode, Overhead, Rung, Side};
use haltwise_document::figures;

use crate::figures::{
    CpuFigures, MISSING, PARTS, SPREAD, WAKERS, WAKES, Wakers, Wakes, by_distance, by_source,
};
use crate::recommend::recommendation::Summary;

pub(crate) const ABOUT: &[&str] = &[
    "Times and lengths are whole nanoseconds, and their names end in `_ns`. Points in time are on the host's \
     `CLOCK_MONOTONIC`, as in the capture.",
    "Shares are 0 to 1. What ends in `_percent` is in % of **one** CPU.",
    "`null` means not recorded. It never means zero.",
    "Percentiles are known to 12.5 %; `max` is exact in full mode.",
    "`worth` has a `verdict`. `no-halts`, `unknown`: nothing more. `not-polling`: `why` is `off`, `gaps-too-long`, \
     `locked-out` or `other`, and `gaps_within` is the share of gaps that the ceiling would cover. `in-vain`: \
     `poll_ns` was polled, and no poll was successful. `polling`: `caught` is the share of halts that a poll ended; \
     `cost_ns` is the CPU time polled for each of these; `spared_ns` is the median wake-up latency of the sleeps; \
     `price` is the first divided by the second, an upper bound: what the two context switches of a sleep cost in \
     CPU is not in a capture.",
];

figures! {
    pub(crate) struct Report {
        /// Version of this layout: 2.
        pub(crate) schema: u32 = Number,
        /// How the facts were obtained, and what is missing from them.
        pub(crate) recording: ReportedRecording = Record(ReportedRecording::FIGURES),
        /// The host, and the account of all halts.
        pub(crate) host: ReportedHost = Record(ReportedHost::FIGURES),
        /// Recommendation of [`tune`](tune-json.md) by the goal balanced: its fields from `side` to `commands`, as
        /// there, and without a search for ceilings of VMs. Where there is none: `why_not` alone.
        pub(crate) recommendation: Summary = Object,
        /// The VMs, in the order in which they were first seen; only those that `--vm` picks.
        pub(crate) vms: Vec<Box<ReportedVm>> = List(ReportedVm::FIGURES),
        /// The account of halts that could not be given to a VM; `null` if there are none.
        pub(crate) unplaced: Option<AccountFigures> = Record(AccountFigures::FIGURES),
    }

    /// How the facts were obtained, and what is missing from them.
    #[derive(Clone)]
    pub(crate) struct ReportedRecording {
        /// Where the facts come from: `bpf`, `tracepoints`, `cpuidle` or `import`.
        pub(crate) rung: Rung = Word,
        /// Side of the halts: `host`, of the host's VMs, or `guest`, of the idle CPUs of the machine that was recorded
        /// (`record --guest`): then the one VM is that machine.
        pub(crate) side: Side = Word,
        /// `full`, or `counts` or `stats` where halts were counted.
        pub(crate) mode: Mode = Word,
        /// Program and version.
        pub(crate) recorder: String = Name,
        /// Calendar time of the start, RFC 3339.
        pub(crate) started_utc: Option<String> = Name,
        /// Start.
        pub(crate) start_ns: u64 = Number,
        /// Length.
        pub(crate) duration_ns: u64 = Nanos,
        /// The recorder did not end the recording itself.
        pub(crate) cut: bool = Flag,
        /// Events lost in all; halts that are counts only are in the figures, and in `notes`.
        pub(crate) lost: u64 = Count,
        /// The same by place.
        pub(crate) lost_by_place: Vec<ReportedLoss> = List(ReportedLoss::FIGURES),
        /// Fields that this recording cannot hold.
        pub(crate) missing: Vec<Missing> = List(MISSING),
        /// Other findings of the reader of the capture.
        pub(crate) notes: Vec<String> = Words,
        /// Cost of the recorder: `recorder_cpu_ns`, `bpf_cpu_ns`, `recorder_rss_bytes`, `added_ns_per_halt`,
        /// where exits were counted `added_ns_per_exit`, and `most_waiting_bytes` of records that waited in memory.
        pub(crate) overhead: Option<Overhead> = Object,
    }

    /// Events lost at one stage.
    #[derive(Clone)]
    pub(crate) struct ReportedLoss {
        /// Where.
        pub(crate) place: String = Name,
        /// How many.
        pub(crate) count: u64 = Count,
    }

    pub(crate) struct ReportedHost {
        /// Its name.
        pub(crate) name: String = Name,
        /// Its kernel's release.
        pub(crate) kernel: String = Name,
        /// CPUs online.
        pub(crate) cpus: Option<u32> = Count,
        /// CPUs busy on average.
        pub(crate) busy_cpus: Option<f64> = Real,
        /// Share of the time in which some task waited for a CPU.
        pub(crate) cpu_pressure: Option<f64> = Share,
        /// Share of all CPU time in which a hypervisor ran something else while there was work, as `top` shows it
        /// (`st`); `null` where that is not known.
        pub(crate) steal: Option<f64> = Share,
        /// CPUs that did not stand still on average, polling ones included (C0), as cpuidle counts; `null` where it does not.
        pub(crate) awake_cpus: Option<f64> = Real,
        /// Power of the CPU packages in watts (RAPL); `null` where the host has none.
        pub(crate) package_watts: Option<f64> = Real,
        /// Cycles per second, of all CPUs together (perf's `cycles`, which stand still with the CPU); `null` where the
        /// host has no PMU that may be read: `missing` has the reason.
        pub(crate) cycles_per_s: Option<f64> = Real,
        /// Instructions for each of these; `null` where they are not counted.
        pub(crate) instructions_per_cycle: Option<f64> = Real,
        /// The states of the CPUs' idle time, as cpuidle counts them, the shallowest first; empty where it does not:
        /// `missing` has the reason.
        pub(crate) idle_states: Vec<StateUse> = List(IDLE_STATE),
        /// Wake-ups of sleeping vCPUs by where the waker ran: on the vCPU's own CPU, on a sibling of its core, on another
        /// core with the same last-level cache, elsewhere; `unknown` where a CPU's place was not recorded; `null` where no CPUs were.
        #[serde(serialize_with = "by_distance")]
        pub(crate) wakers: Option<Wakers> = Record(WAKERS),
        /// Settings in force.
        pub(crate) knobs: Vec<ReportedSetting> = List(ReportedSetting::FIGURES),
        /// VMs that were seen, reported here or not.
        pub(crate) vms: usize = Count,
        /// All halts, placed or not.
        pub(crate) account: AccountFigures = Record(AccountFigures::FIGURES),
    }

    pub(crate) struct ReportedSetting {
        /// Its name.
        pub(crate) name: String = Name "parameter",
        /// `host`, `guest-of-other` or `vm`.
        pub(crate) scope: &'static str = Word,
        /// The VM's index, for scope `vm`.
        pub(crate) vm: Option<u32> = Number,
        /// At the end of the recording.
        pub(crate) value: String = Name,
        /// How often it changed during the recording.
        pub(crate) changes: u64 = Count,
    }

    pub(crate) struct ReportedVm {
        /// The VM's row in the capture.
        pub(crate) index: u32 = Number,
        /// Name that its VMM uses for it.
        pub(crate) name: String = Name "VM",
        /// Its other names, as far as there are any: `domain` (what its VMM was given), `uuid`, `vmid` (Proxmox VE),
        /// `pod` and `pod_uid` (KubeVirt), `cgroup`; `null` where none is known.
        pub(crate) identity: Option<Identity> = Object,
        /// Which VMM.
        pub(crate) vmm: VmmKind = Word,
        /// The VMM's process.
        pub(crate) pid: u32 = Number,
        /// Start of that process in clock ticks since boot.
        pub(crate) start_ticks: u64 = Number,
        /// Which VM of that process.
        pub(crate) ordinal: u32 = Number,
        /// Why its halts cannot be seen; `null` if they can.
        pub(crate) not_observable: Option<String> = Name,
        /// When it came; `null` where it was there when the recording began.
        pub(crate) from_ns: Option<u64> = Number,
        /// When it was gone; `null` where it was there when the recording ended.
        pub(crate) to_ns: Option<u64> = Number,
        /// How long none of its vCPUs was in `KVM_RUN`: it was paused, not started, or stopped after an error (by
        /// the source `tracepoints` also: its VMM handles HLT itself); `null` where that is not known. Each VM is
        /// looked at once a second.
        pub(crate) paused_ns: Option<u64> = Nanos,
        /// CPU time, by the scheduler's counts; `null` where that was not recorded.
        pub(crate) cpu: Option<CpuFigures> = Record(CpuFigures::FIGURES),
        /// The sum of its vCPUs.
        pub(crate) account: AccountFigures = Record(AccountFigures::FIGURES),
        /// Its vCPUs.
        pub(crate) vcpus: Vec<ReportedVcpu> = List(ReportedVcpu::FIGURES),
    }

    pub(crate) struct ReportedVcpu {
        /// Its number.
        pub(crate) id: u32 = Number "vCPU",
        /// Its thread.
        pub(crate) tid: Option<u32> = Number,
        /// Window at the end of the recording.
        pub(crate) window_ns: Option<u32> = Nanos,
        /// Ceiling at the end of the recording.
        pub(crate) ceiling_ns: Option<u32> = Nanos,
        /// `param` (module parameter), `cap` (the VM's own), `snapshot` (fixed when the VM was created, kernels 5.8
        /// to 6.0) or `unknown`.
        pub(crate) ceiling_source: CeilingSource = Word,
        /// The guest disabled host polling.
        pub(crate) guest_veto: Option<bool> = Flag,
        /// CPU time of its thread.
        pub(crate) cpu_percent: Option<f64> = CpuPercent,
        /// Time in which its thread was runnable and waited for a CPU.
        pub(crate) queued_percent: Option<f64> = CpuPercent,
        /// Its halts.
        pub(crate) account: AccountFigures = Record(AccountFigures::FIGURES),
    }

    pub(crate) struct AccountFigures {
        /// The time that rates and shares refer to: the recording, or the VM's presence in it.
        pub(crate) span_ns: u64 = Nanos,
        /// The vCPUs that it sums up.
        pub(crate) vcpus: usize = Count,
        /// Halts.
        pub(crate) halts: u64 = Count,
        /// The same per second.
        pub(crate) halts_per_s: f64 = PerSecond "halts/s",
        /// Halts in which the vCPU was scheduled out: two context switches each.
        pub(crate) waits: u64 = Count,
        /// The same per second.
        pub(crate) waits_per_s: f64 = PerSecond "sleeps/s",
        /// Wake-ups that KVM did not count as valid (s390).
        pub(crate) invalid: u64 = Count,
        /// Halted time, KVM's own measure.
        pub(crate) halted_ns: u64 = Nanos,
        /// Its share of the vCPUs' time. Of a halt that crosses an end of the recording, the share takes what lies
        /// within.
        pub(crate) halted_share: f64 = Share "halted",
        /// Where halted time went. The parts add up to `halted_ns`. Where `unknown_ns` is not 0, the others are
        /// what is known at least.
        pub(crate) parts: Parts = Record(PARTS),
        /// Polling.
        pub(crate) poll: PollFigures = Record(PollFigures::FIGURES),
        /// Halts by what ended them.
        #[serde(serialize_with = "by_source")]
        pub(crate) wakes: Wakes = Record(WAKES),
        /// Whole halts.
        pub(crate) halt_ns: Option<Spread> = Record(SPREAD),
        /// Gaps: from the halt to its wake event.
        pub(crate) gap_ns: Option<Spread> = Record(SPREAD),
        /// Wake-up latency of halts that waited.
        pub(crate) wake_latency_ns: Option<Spread> = Record(SPREAD),
        /// Gaps by powers of two.
        pub(crate) gap_histogram: Vec<Octave> = List(GAP_BUCKET),
        /// Wake-up latencies by powers of two.
        pub(crate) wake_latency_histogram: Vec<Octave> = List(GAP_BUCKET),
        /// The window over time.
        pub(crate) window: WindowFigures = Record(WindowFigures::FIGURES),
        /// Ceilings in force, lowest first.
        pub(crate) ceilings: Vec<CeilingFigures> = List(CeilingFigures::FIGURES),
        /// Verdict of the account on polling: see above.
        pub(crate) worth: Worth = Object,
        /// Shares of halts that lack a field.
        pub(crate) unknown: UnknownFigures = Record(UnknownFigures::FIGURES),
    }

    pub(crate) struct PollFigures {
        /// Halts of which it is known whether they polled.
        pub(crate) known: u64 = Count,
        /// Halts that polled.
        pub(crate) polled: u64 = Count,
        /// Those of them never scheduled out (KVM's `halt_successful_poll`).
        pub(crate) successful: u64 = Count,
        /// The others; `null` where it is not known of more than one in 32 halts whether it polled.
        pub(crate) failed: Option<u64> = Count,
        /// Polls that ended because another task wanted the CPU.
        pub(crate) cut: Option<u64> = Count,
        /// Halts that did not poll.
        pub(crate) not_polled: Option<u64> = Count,
        /// Accuracy of the times of polls: `exact`, or a bound (`at least`, `at most`, `about`) where it was not
        /// recorded of more than one in 32 halts whether or how long they polled.
        pub(crate) bound: &'static str = Name,
        /// CPU time spent polling.
        pub(crate) ns: Option<u64> = Nanos,
        /// The same.
        pub(crate) cpu_percent: Option<f64> = CpuPercent "poll CPU",
        /// The same by polls that succeeded.
        pub(crate) useful_cpu_percent: Option<f64> = CpuPercent,
        /// The same by polls that failed.
        pub(crate) wasted_cpu_percent: Option<f64> = CpuPercent "failed",
        /// Polls of no time at all.
        pub(crate) zero: PollBar = Record(PollBar::FIGURES),
        /// Poll time against count, by powers of two.
        pub(crate) time_against_count: Vec<PollBar> = List(PollBar::FIGURES),
    }

    #[derive(Clone, Copy, Default)]
    pub(crate) struct PollBar {
        /// The shortest.
        pub(crate) low_ns: u64 = Nanos,
        /// The longest.
        pub(crate) high_ns: u64 = Nanos,
        /// Polls that succeeded.
        pub(crate) successful: u64 = Count,
        /// Polls that failed.
        pub(crate) failed: u64 = Count,
    }

    pub(crate) struct WindowFigures {
        /// Calls of grow.
        pub(crate) grows: u64 = Count,
        /// Calls of shrink.
        pub(crate) shrinks: u64 = Count,
        /// Window that the newest halt left behind.
        pub(crate) now_ns: Option<u32> = Nanos,
        /// Length of a slot.
        pub(crate) slot_ns: u64 = Nanos,
        /// Slots in which something ended, oldest first.
        pub(crate) slots: Vec<WindowSlot> = List(WindowSlot::FIGURES),
        /// Windows at entry by powers of two.
        pub(crate) histogram: Vec<Octave> = List(GAP_BUCKET),
    }

    pub(crate) struct WindowSlot {
        /// When it begins.
        pub(crate) start_ns: u64 = Number,
        /// Halts that ended.
        pub(crate) halts: u64 = Count,
        /// Those of them that were scheduled out.
        pub(crate) waits: u64 = Count,
        /// Time polled.
        pub(crate) poll_ns: u64 = Nanos,
        /// Mean window: over halts where they know it, else over the calls of grow and shrink.
        pub(crate) window_mean_ns: Option<u64> = Nanos,
        /// Largest window.
        pub(crate) window_max_ns: Option<u32> = Nanos,
    }

    pub(crate) struct CeilingFigures {
        /// The ceiling.
        pub(crate) ns: u32 = Nanos,
        /// Source of the ceiling.
        pub(crate) source: CeilingSource = Word,
        /// Halts that it governed. With 0: as the vCPUs had it when they were looked at.
        pub(crate) halts: u64 = Count,
        /// First time seen.
        pub(crate) first_ns: u64 = Number,
        /// Last time seen.
        pub(crate) last_ns: u64 = Number,
    }

    /// Shares of halts that lack a field.
    pub(crate) struct UnknownFigures {
        /// Without `window_ns`.
        pub(crate) window_ns: f64 = Share,
        /// Without `ceiling_ns`.
        pub(crate) ceiling_ns: f64 = Share,
        /// Without `poll_ns`.
        pub(crate) poll_ns: f64 = Share,
        /// Without `wake_latency_ns`, of halts that waited.
        pub(crate) wake_latency_ns: f64 = Share,
        /// Without `wake`.
        pub(crate) wake: f64 = Share,
    }
}

figures! {
    /// A state of cpuidle, all CPUs together, between its first and last reading.
    const IDLE_STATE: StateUse {
        /// Its number.
        state: u32 = Number "state",
        /// Name that its driver uses for it.
        name: String = Name "name",
        /// How its driver describes it.
        description: String = Name "description",
        /// CPUs that have it.
        cpus: u32 = Count,
        /// How often it was entered.
        entries: u64 = Count,
        /// The same per second.
        entries_per_s: f64 = PerSecond "entries/s",
        /// Time spent in it.
        residency_ns: u64 = Nanos,
        /// Its share of the CPUs' time.
        share: f64 = Share "time",
        /// Mean time of an entry; `null` where there was none.
        mean_ns: Option<u64> = Nanos "each",
        /// Entries that ended before the state's target residency, while a shallower one was enabled (`above`); `null`
        /// where this kernel does not count them.
        above: Option<u64> = Count,
        /// Entries that lasted long enough for the next deeper state (`below`).
        below: Option<u64> = Count,
    }
}

figures! {
    /// One bucket of a histogram, both ends included.
    const GAP_BUCKET: Octave {
        /// The shortest.
        low_ns: u64 = Nanos,
        /// The longest.
        high_ns: u64 = Nanos,
        /// How many.
        count: u64 = Count,
    }
}
