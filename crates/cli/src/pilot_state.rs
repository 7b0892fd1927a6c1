//! The pilot's reports on itself: on each VM, on its guards and on its own cost. Status, metrics and the state file
//! are made from these reports; the pilot writes the reports, and other verbs read them.

pub(crate) mod kept;
pub(crate) mod metrics;
pub(crate) mod text;

use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::guards::{Guard, Guarded};
use haltwise_core::pilot::standing::{Decisions, PilotErrors, PilotVm, VmState};
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
        pub(crate) vms: Vec<PilotVm> = List(VM),
        /// Conditions that can keep it from acting.
        pub(crate) guards: Vec<Guarded> = List(GUARD),
        /// How many decisions there were.
        pub(crate) decisions: Decisions = Record(DECISIONS),
        /// Cost of the pilot itself.
        pub(crate) own: PilotCost = Record(PilotCost::FIGURES),
        /// How far its predictions of a cost were off.
        pub(crate) errors: PilotErrors = Record(ERRORS),
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
}

figures! {
    pub(crate) const VM: PilotVm {
        /// Its name.
        vm: String = Name,
        /// Its UUID, where known.
        uuid: Option<String> = Name,
        /// Process of its VMM.
        pid: u32 = Number,
        /// Its vCPUs.
        vcpus: u64 = Count,
        /// Its goal; `excluded` where the pilot leaves it alone.
        goal: String = Name,
        /// Current state: `watching`, `trial`, `kept`, `back-off`, `hands-off`, `excluded`, `not-settable`, `no-data`.
        state: VmState = Word,
        /// The ceiling in force; `null` where it is not known.
        ceiling_ns: Option<u32> = Nanos,
        /// The ceiling that the pilot found.
        found_ns: Option<u32> = Nanos "found",
        /// Since when it is in this state.
        since_utc: String = Name "since",
        /// For how long; `null` in what an earlier version wrote.
        state_ns: Option<u64> = Nanos,
        /// Why.
        why: String = Name,
        /// Last decision since the pilot started, periods of trials apart: `would-try`, `try`, `keep`, `go-back`,
        /// `again`, `restore`, `hands-off`.
        decision: Option<Kind> = Word,
        /// How long ago that was.
        decision_ago_ns: Option<u64> = Nanos,
        /// Where it observes: the ceiling that it would set.
        would_set_ns: Option<u32> = Nanos "would set",
        /// Change of the cost of a halt, as a share, as predicted before it was tried.
        predicted: Option<Interval> = Record(INTERVAL),
        /// The same, as measured in drawn on and off periods.
        measured: Option<Interval> = Record(INTERVAL),
        /// CPU time (with latency by the goal) saved since the pilot first looked at the VM, or its goal changed,
        /// by replay: of the setting found where it acts or what it set is in force, else of the one that it would set.
        saved_ns: Option<Interval> = Record(INTERVAL),
        /// Whether settings in force saved that; `false`: it would have been saved, by the setting that the pilot would
        /// set; `null` in what an earlier version wrote.
        is_saved: Option<bool> = Flag,
        /// Cost since the pilot first looked at the VM, or its goal changed, against that of the setting found, by
        /// replay, as a share; above 0 is worse.
        regret: Option<f64> = Real,
        /// Halts in a second.
        halts_per_s: Option<f64> = PerSecond "halts/s",
        /// Polling, in % of one CPU.
        poll_cpu_percent: Option<f64> = CpuPercent "polling",
        /// Failed polls, in % of one CPU.
        failed_poll_cpu_percent: Option<f64> = CpuPercent "failed",
        /// Mean wake-up latency of a halt, when all facts were recorded last.
        latency_mean_ns: Option<u64> = Nanos "latency",
        /// How long this phase of its load has lasted.
        phase_ns: u64 = Nanos "phase",
        }
}

figures! {
    /// A condition that keeps the pilot from acting, or makes it restore the settings that it found.
    pub(crate) const GUARD: Guarded {
        /// Which: `cpu-pressure`, `polling-budget`, `over-commitment`, `free-cpus`, `kernel`,
        /// `sched-ext`, `read-only`, `left-alone`.
        guard: Guard = Word,
        /// It keeps the pilot from acting now.
        holds: bool = Flag,
        /// Value that it looks at; `null` where that cannot be read.
        value: Option<f64> = Real,
        /// From which value on it holds.
        limit: Option<f64> = Real,
        /// The value and the limit in words, with the source of the limit.
        why: String = Name,
        }
}

figures! {
    /// Decisions since the start, by kind.
    pub(crate) const DECISIONS: Decisions {
        /// It observed, and would have tried a setting.
        would_set: u64 = Count,
        /// A setting was tried.
        tried: u64 = Count,
        /// A trial measured the gain, and the setting was kept.
        kept: u64 = Count,
        /// A trial measured no gain, and the setting before it was restored.
        went_back: u64 = Count,
        /// A guard or another load made it restore what it had found.
        restored: u64 = Count,
        /// A setting of the pilot was modified externally, and the pilot leaves it alone.
        hands_off: u64 = Count,
        /// A change was refused or failed.
        failed: u64 = Count,
        }
}

figures! {
    /// How far predictions were off: predicted less measured change of the cost of a halt, as a share of that cost.
    pub(crate) const ERRORS: PilotErrors {
        /// Trials that measured a prediction.
        trials: usize = Count,
        /// Proofs on this host that did before the start, as the ledger has them; `null` in what an earlier version wrote.
        proofs: Option<usize> = Count,
        /// Half of them were off by at most so much.
        p50: Option<f64> = Real,
        /// Nine in ten. Decisions count with this.
        p90: Option<f64> = Real,
        }
}
