//! The answer: each figure with its name, unit and meaning.

use haltwise_core::tune::advice::Verdict;
use haltwise_document::figures;

use crate::figures::{CpuFigures, Source};
use crate::recommend::view::GoalAdvice;

pub(crate) const ABOUT: &[&str] = &[
    "`report` and `tune` say the same of the capture that it names, and more.",
    "Times are whole nanoseconds, and their names end in `_ns`. Settings are compared on the second half of the \
     recording; intervals hold the true difference to the current setting with 95 % confidence.",
    "`null` means that the recording does not show it. It never means zero. Where nothing was recorded, because no VM \
     runs or recording is not permitted, `recording` and `capture` are `null`, and `outside` is not.",
];

pub(crate) const SCHEMA: u32 = 1;

figures! {
    #[derive(Default)]
    pub(crate) struct Answer {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// How the facts were obtained, and what is missing from them.
        pub(crate) recording: Option<Source> = Record(Source::FIGURES),
        /// Facts known without a recording, where there is none.
        pub(crate) outside: Option<UnrecordedHost> = Record(UnrecordedHost::FIGURES),
        /// The capture's directory.
        pub(crate) capture: Option<String> = Name,
        /// CPUs of the host.
        pub(crate) cpus: Option<u32> = Count,
        /// Halts that were recorded; `null` where there are none and a VM is not observable.
        pub(crate) halts: Option<u64> = Count,
        /// CPU time spent polling.
        pub(crate) poll_cpu_percent: Option<f64> = CpuPercent,
        /// Accuracy of times of polls: `exact`, `at least`, `at most` or `about`.
        pub(crate) poll_bound: Option<&'static str> = Name,
        /// The part of it in polls that failed.
        pub(crate) failed_cpu_percent: Option<f64> = CpuPercent,
        /// The VMs, most CPU time first; where that was not recorded, most polling first. Those whose halts were not
        /// observed come last.
        pub(crate) vms: Vec<UsingVm> = List(UsingVm::FIGURES),
        /// VMs with a ceiling of their own (`KVM_CAP_HALT_POLL`), for which `halt_poll_ns` means nothing.
        pub(crate) own_ceilings: usize = Count,
        /// The current setting, then no polling and the recommended setting where they differ from it; empty where
        /// nothing can be replayed.
        pub(crate) settings: Vec<ComparedSetting> = List(ComparedSetting::FIGURES),
        /// Advice for each goal; empty where nothing can be replayed.
        pub(crate) goals: Vec<GoalAdvice> = List(GoalAdvice::FIGURES),
        /// Cost of a sleep, its origin, and what disturbed its measurement; `null` where nothing can be replayed.
        pub(crate) price: Option<String> = Name,
        /// The goal that the answer is for.
        pub(crate) goal: &'static str = Word,
        /// Verdict on a change of KVM's parameters for it, in a word; `null` where nothing can be recommended.
        pub(crate) verdict: Option<Verdict> = Word,
        /// The same in a sentence or two.
        pub(crate) advice: String = Word,
        /// Findings beside polling, most expensive first, at most two; and at most two VMs whose vCPUs
        /// never halt.
        pub(crate) findings: Vec<CostlyFinding> = List(CostlyFinding::FIGURES),
        /// The command that applies the recommendation; `null` where nothing is to be set.
        pub(crate) apply: Option<String> = Word,
        /// The command that restores what was there before.
        pub(crate) undo: Option<String> = Word,
        /// The command that measures both settings alternately on this host.
        pub(crate) prove: Option<String> = Word,
    }

    pub(crate) struct UsingVm {
        /// Its name.
        pub(crate) name: String = Name "VM",
        /// Its VMM's process.
        pub(crate) pid: u32 = Number,
        /// CPU time that its VMM's threads took; `null` where that was not recorded.
        pub(crate) cpu: Option<CpuFigures> = Record(CpuFigures::FIGURES),
        /// The highest ceiling of its halts; `null` where none was recorded.
        pub(crate) ceiling_ns: Option<u32> = Nanos "ceiling",
        /// Median gap: from the halt to its wake event; `null` where none was recorded.
        pub(crate) gap_p50_ns: Option<u64> = Nanos "gap",
        /// CPU time spent polling; `null` where that was not recorded, or no vCPU halted.
        pub(crate) poll_cpu_percent: Option<f64> = CpuPercent "polling",
        /// The part of it in polls that failed.
        pub(crate) failed_cpu_percent: Option<f64> = CpuPercent "failed",
        /// Accuracy of these two: `exact`, `at least`, `at most` or `about`.
        pub(crate) poll_bound: &'static str = Name,
    }

    /// A host as it is seen without a recording.
    #[derive(Default)]
    pub(crate) struct UnrecordedHost {
        /// KVM's parameters of halt polling.
        pub(crate) parameters: Vec<ParameterValue> = List(ParameterValue::FIGURES),
        /// Processes that run VMs, or look like it by the names of their threads, most CPU time first.
        pub(crate) vms: Vec<UnrecordedVm> = List(UnrecordedVm::FIGURES),
        /// Processes that may not be looked into: any of them may run a VM.
        pub(crate) hidden_processes: usize = Count,
        /// CPUs busy on average, over a second; `null` where no VM was found.
        pub(crate) busy_cpus: Option<f64> = Real,
        /// Share of that second in which some task waited for a CPU.
        pub(crate) cpu_pressure: Option<f64> = Share,
    }

    /// A process as any user can read it: its CPU time over a second, in ticks of 10 ms or so.
    #[derive(Default)]
    pub(crate) struct UnrecordedVm {
        /// Its VM's name.
        pub(crate) name: String = Name,
        /// Its number.
        pub(crate) pid: u32 = Number,
        /// CPU time; `null` of a process that came or went.
        pub(crate) cpu_percent: Option<f64> = CpuPercent,
        /// The part of it in the guest.
        pub(crate) guest_cpu_percent: Option<f64> = CpuPercent,
        /// The part of it in the kernel: exits, halt polling and I/O, which only a recording separates.
        pub(crate) kernel_cpu_percent: Option<f64> = CpuPercent,
    }

    pub(crate) struct ParameterValue {
        /// As KVM names it.
        pub(crate) name: String = Name,
        /// As the kernel prints it.
        pub(crate) value: String = Name,
    }

    /// A setting, and what it comes to on the second half of the recording.
    pub(crate) struct ComparedSetting {
        /// Which it is: `current`, `off` or `recommended`.
        pub(crate) which: &'static str = Word,
        /// The parameters, as KVM names them.
        pub(crate) setting: String = Word,
        /// CPU time spent polling.
        pub(crate) poll_cpu_percent: f64 = CpuPercent "polling",
        /// Its interval's lower end; `null` of the current setting, and where there are too few halts.
        pub(crate) poll_cpu_percent_low: Option<f64> = CpuPercent,
        /// Its interval's upper end.
        pub(crate) poll_cpu_percent_high: Option<f64> = CpuPercent,
        /// Mean wake-up latency.
        pub(crate) latency_mean_ns: u64 = Nanos "latency",
        /// Its interval's lower end.
        pub(crate) latency_mean_low_ns: Option<u64> = Nanos,
        /// Its interval's upper end.
        pub(crate) latency_mean_high_ns: Option<u64> = Nanos,
        /// 99th percentile of the wake-up latency.
        pub(crate) latency_p99_ns: u64 = Nanos "p99",
    }

    pub(crate) struct CostlyFinding {
        /// The rule.
        pub(crate) rule: &'static str = Word,
        /// Description of the finding.
        pub(crate) title: &'static str = Word,
        /// VM that it concerns; `null` is the host.
        pub(crate) vm: Option<String> = Name,
        /// Observation, with its numbers, in words.
        pub(crate) signature: String = Name,
        /// Upper bound of the finding's cost in CPU time; `null` where that cannot be computed.
        pub(crate) cpu_percent: Option<f64> = CpuPercent,
        /// Possible remedy.
        pub(crate) remedy: String = Name,
    }
}

impl CostlyFinding {
    /// Several are separated by ` Or: `.
    pub(crate) fn first_remedy(&self) -> &str {
        let first = self.remedy.split_once(" Or: ");
        first.map_or(&self.remedy, |(first, _)| first)
    }
}
