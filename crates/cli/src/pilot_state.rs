//! The pilot's reports on itself: on each VM, on its guards and on its own cost. Status, metrics and the state file
//! are made from these reports; the pilot writes the reports, and other verbs read them.

pub(crate) mod kept;
pub(crate) mod metrics;
pub(crate) mod text;

use haltwise_core::stats::Interval;
use haltwise_document::figures;
use serde::Deserialize;

use crate::figures::INTERVAL;

pub(crate) const SCHEMA: u32 = 1;

pub(crate) const ABOUT: &[&str] = &[
    "`haltwise status --json` has the same in `pilot`, as the pilot wrote it last.",
    "How the pilot decides: [the pilot](pilot.md).",
];

figures! {
    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct PilotStatus {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// Process of the pilot.
        pub(crate) pid: u32 = Number,
        /// `observe`: it changes nothing; `act`: it may change settings; in `status` also `ended`: its process is gone.
        pub(crate) mode: String = Word,
        /// When it started.
        pub(crate) started_utc: String = Name,
        /// When this was written.
        pub(crate) written_utc: String = Name,
        /// For how long it has run.
        pub(crate) running_ns: u64 = Nanos,
        /// The goal of VMs without one of their own.
        pub(crate) goal: String = Name,
        /// The last decision, in words.
        pub(crate) last_decision: Option<String> = Name,
        /// VM by VM.
        pub(crate) vms: Vec<PilotVm> = List(PilotVm::FIGURES),
        /// Conditions that can keep it from acting.
        pub(crate) guards: Vec<PilotGuard> = List(PilotGuard::FIGURES),
        /// How many decisions there were.
        pub(crate) decisions: PilotDecisions = Record(PilotDecisions::FIGURES),
        /// Cost of the pilot itself.
        pub(crate) own: PilotCost = Record(PilotCost::FIGURES),
        /// How far its predictions of a cost were off.
        pub(crate) errors: PilotErrors = Record(PilotErrors::FIGURES),
    }

    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct PilotVm {
        /// Its name.
        pub(crate) vm: String = Name,
        /// Its UUID, where known.
        pub(crate) uuid: Option<String> = Name,
        /// Process of its VMM.
        pub(crate) pid: u32 = Number,
        /// Its vCPUs.
        pub(crate) vcpus: u64 = Count,
        /// Its goal; `excluded` where the pilot leaves it alone.
        pub(crate) goal: String = Name,
        /// Current state: `watching`, `trial`, `kept`, `back-off`, `hands-off`, `excluded`, `not-settable`, `no-data`.
        pub(crate) state: String = Word,
        /// The ceiling in force; `null` where it is not known.
        pub(crate) ceiling_ns: Option<u64> = Nanos,
        /// The ceiling that the pilot found.
        pub(crate) found_ns: Option<u64> = Nanos "found",
        /// Since when it is in this state.
        pub(crate) since_utc: String = Name "since",
        /// For how long; `null` in what an earlier version wrote.
        pub(crate) state_ns: Option<u64> = Nanos,
        /// Why.
        pub(crate) why: String = Name,
        /// Last decision since the pilot started, periods of trials apart: `would-try`, `try`, `keep`, `go-back`,
        /// `again`, `restore`, `hands-off`.
        pub(crate) decision: Option<String> = Word,
        /// How long ago that was.
        pub(crate) decision_ago_ns: Option<u64> = Nanos,
        /// Where it observes: the ceiling that it would set.
        pub(crate) would_set_ns: Option<u64> = Nanos "would set",
        /// Change of the cost of a halt, as a share, as predicted before it was tried.
        pub(crate) predicted: Option<Interval> = Record(INTERVAL),
        /// The same, as measured in drawn on and off periods.
        pub(crate) measured: Option<Interval> = Record(INTERVAL),
        /// CPU time (with latency by the goal) saved since the pilot first looked at the VM, or its goal changed,
        /// by replay: of the setting found where it acts or what it set is in force, else of the one that it would set.
        pub(crate) saved_ns: Option<Interval> = Record(INTERVAL),
        /// Whether settings in force saved that; `false`: it would have been saved, by the setting that the pilot would
        /// set; `null` in what an earlier version wrote.
        pub(crate) is_saved: Option<bool> = Flag,
        /// Cost since the pilot first looked at the VM, or its goal changed, against that of the setting found, by
        /// replay, as a share; above 0 is worse.
        pub(crate) regret: Option<f64> = Real,
        /// Halts in a second.
        pub(crate) halts_per_s: Option<f64> = PerSecond "halts/s",
        /// Polling, in % of one CPU.
        pub(crate) poll_cpu_percent: Option<f64> = CpuPercent "polling",
        /// Failed polls, in % of one CPU.
        pub(crate) failed_poll_cpu_percent: Option<f64> = CpuPercent "failed",
        /// Mean wake-up latency of a halt, when all facts were recorded last.
        pub(crate) latency_mean_ns: Option<u64> = Nanos "latency",
        /// How long this phase of its load has lasted.
        pub(crate) phase_ns: u64 = Nanos "phase",
    }

    /// A condition that keeps the pilot from acting, or makes it restore the settings that it found.
    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct PilotGuard {
        /// Which: `cpu-pressure`, `polling-budget`, `over-commitment`, `free-cpus`, `kernel`,
        /// `sched-ext`, `read-only`, `left-alone`.
        pub(crate) guard: String = Word,
        /// It keeps the pilot from acting now.
        pub(crate) holds: bool = Flag,
        /// Value that it looks at; `null` where that cannot be read.
        pub(crate) value: Option<f64> = Real,
        /// From which value on it holds.
        pub(crate) limit: Option<f64> = Real,
        /// The value and the limit in words, with the source of the limit.
        pub(crate) why: String = Name,
    }

    /// Decisions since the start, by kind.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
    pub(crate) struct PilotDecisions {
        /// It observed, and would have tried a setting.
        pub(crate) would_set: u64 = Count,
        /// A setting was tried.
        pub(crate) tried: u64 = Count,
        /// A trial measured the gain, and the setting was kept.
        pub(crate) kept: u64 = Count,
        /// A trial measured no gain, and the setting before it was restored.
        pub(crate) went_back: u64 = Count,
        /// A guard or another load made it restore what it had found.
        pub(crate) restored: u64 = Count,
        /// A setting of the pilot was modified externally, and the pilot leaves it alone.
        pub(crate) hands_off: u64 = Count,
        /// A change was refused or failed.
        pub(crate) failed: u64 = Count,
    }

    #[derive(Clone, Copy, PartialEq, Default, Deserialize)]
    pub(crate) struct PilotCost {
        /// CPU time of its process and of its BPF programs, in % of one CPU, since it started.
        pub(crate) cpu_percent: f64 = CpuPercent,
        /// CPU time of its process.
        pub(crate) process_cpu_ns: u64 = Nanos,
        /// CPU time of its BPF programs; `null` where the kernel does not count it.
        pub(crate) kernel_cpu_ns: Option<u64> = Nanos,
        /// Resident memory, in bytes.
        pub(crate) memory_bytes: Option<u64> = Amount,
        /// Halts that it holds.
        pub(crate) halts_held: u64 = Count,
        /// Events lost.
        pub(crate) lost: u64 = Count,
        /// Readings that could not be true, and were dropped.
        pub(crate) readings_dropped: u64 = Count,
    }

    /// How far predictions were off: predicted less measured change of the cost of a halt, as a share of that cost.
    #[derive(Clone, Copy, PartialEq, Default, Deserialize)]
    pub(crate) struct PilotErrors {
        /// Trials that measured a prediction.
        pub(crate) trials: u64 = Count,
        /// Proofs on this host that did before the start, as the ledger has them; `null` in what an earlier version wrote.
        pub(crate) proofs: Option<u64> = Count,
        /// Half of them were off by at most so much.
        pub(crate) p50: Option<f64> = Real,
        /// Nine in ten. Decisions count with this.
        pub(crate) p90: Option<f64> = Real,
    }
}
