//! The result of a replay: each figure with its name, unit and meaning.

use haltwise_core::policy::Side;
use haltwise_core::replay::Doubts;
use haltwise_document::figures;

use crate::figures::DOUBTS;
use crate::prices::model::Model;
use crate::prices::price::Price;

pub(crate) const ABOUT: &[&str] = &[
    "Times and lengths are whole nanoseconds, and their names end in `_ns`.",
    "What ends in `_percent` is in % of **one** CPU, or of the time.",
    "`null` means that it is not known: in `recorded`, that the source does not show how long halts polled. It \
     never means zero.",
    "Percentiles are known to 12.5 %.",
    "Another task that wants the CPU ends a poll of KVM's, and is replayed so. It does not end a poll of the guest, \
     which is guest code: the scheduler shares the CPU, and how late that makes the wake-up is not in a recording. \
     Such polls are counted in `contended_polls`.",
];

figures! {
    pub(crate) struct Replay {
        /// Version of this layout: 2.
        pub(crate) schema: u32 = Number,
        pub(crate) basis: ReplayBasis = Record(ReplayBasis::FIGURES),
        /// A group for each VM; with `--vcpus` one for each vCPU after its VM's.
        pub(crate) vms: Vec<HaltGroup> = List(HaltGroup::FIGURES),
        /// The group of all halts.
        pub(crate) host: HaltGroup = Record(HaltGroup::FIGURES),
    }

    pub(crate) struct ReplayBasis {
        #[serde(flatten)]
        pub(crate) model: Model = Flat(Model::FIGURES),
        #[serde(flatten)]
        pub(crate) price: Price = Flat(Price::FIGURES),
        /// Nanoseconds of CPU that a nanosecond of wake-up latency counts as.
        pub(crate) latency_weight: f64 = Real,
        /// Events lost while recording.
        pub(crate) lost: u64 = Count,
        /// Halts left out because their timestamps go backwards.
        pub(crate) out_of_order: u64 = Count,
        /// Halts on which an assumption rests, whatever the policy.
        pub(crate) doubts: Doubts = Record(DOUBTS),
        /// vCPUs whose guest disabled host polling: no setting of the host reaches them.
        pub(crate) vetoed_vcpus: u64 = Count,
        /// The capture is cut or damaged.
        pub(crate) partial: bool = Flag,
    }
}

figures! {
    pub(crate) struct HaltGroup {
        /// The VM's name; `null` for the host, and for halts of unknown VMs.
        pub(crate) name: Option<String> = Name "VM",
        /// Its VMM's process.
        pub(crate) pid: Option<u32> = Number,
        /// The vCPU, in a group of one.
        pub(crate) vcpu: Option<u32> = Number,
        /// vCPUs that halted.
        pub(crate) vcpus: u64 = Count "vCPUs",
        /// Halts.
        pub(crate) halts: u64 = Count,
        /// Median gap: from the halt to its wake event.
        pub(crate) gap_p50_ns: Option<u64> = Nanos,
        /// Costs that were recorded.
        pub(crate) recorded: HaltCosts = Record(HaltCosts::FIGURES),
        /// Under each policy.
        pub(crate) played: Vec<PlayedPolicy> = List(PlayedPolicy::FIGURES),
    }

    pub(crate) struct PlayedPolicy {
        /// The policy, as it was given.
        pub(crate) policy: String = Name,
        /// Side that polls: `host` or `guest`.
        pub(crate) side: Side = Word,
        /// It is a lower bound (the oracle), not a policy that could be used.
        pub(crate) sees_the_future: bool = Flag,
        /// Starting without a window.
        pub(crate) from_zero: HaltCosts = Record(HaltCosts::FIGURES),
        /// Starting with the largest window.
        pub(crate) from_ceiling: HaltCosts = Record(HaltCosts::FIGURES),
        /// The two end differently.
        pub(crate) bistable: bool = Flag,
        /// Starting without a window, if wake-ups that the recording does not show were as early as they may be:
        /// a fifth shorter where less than one halt in ten polled, since CPUs that poll stay in C0; those
        /// of sleeps that hardly occurred, half of the calibrated or of the fastest. `null` where the recording shows
        /// them.
        pub(crate) early_wakes: Option<OtherWakes> = Record(OtherWakes::FIGURES),
        /// The same as late as they may be: of sleeps that hardly occurred, twice the calibrated, or a quarter
        /// longer than recorded.
        pub(crate) late_wakes: Option<OtherWakes> = Record(OtherWakes::FIGURES),
        /// Worth of polling in the guest; `null` for policies of the host.
        pub(crate) in_guest: Option<GuestPolling> = Record(GuestPolling::FIGURES),
    }

    /// Figures that would change with other wake-ups.
    pub(crate) struct OtherWakes {
        /// Polls that ended in a wake.
        pub(crate) successful_polls: u64 = Count,
        /// Time polled.
        pub(crate) poll_ns: u64 = Nanos,
        /// Wake-up latency in all.
        pub(crate) latency_ns: u64 = Nanos,
        /// Cost in nanoseconds of CPU.
        pub(crate) cost_ns: f64 = MeanNanos,
    }

    /// A policy of the guest beside those of the host.
    pub(crate) struct GuestPolling {
        /// The cheapest policy of the host that was played and exists.
        pub(crate) against: Option<String> = Name,
        /// The price of an exit, and of an IPI, from which this policy costs less than that one; negative if it
        /// costs less whatever they cost, `null` if it spares none.
        pub(crate) exit_break_even_ns: Option<f64> = Real,
    }

    #[derive(Clone)]
    pub(crate) struct HaltCosts {
        /// Halts whose polling time was not recorded; in `recorded` they count as not polling. Where that is all
        /// of them, what hangs on polling is `null`.
        pub(crate) poll_unknown: u64 = Count,
        /// Halts that polled.
        pub(crate) polls: Option<u64> = Count,
        /// Polls that ended in a wake.
        pub(crate) successful_polls: Option<u64> = Count,
        /// Halts that slept: two context switches each.
        pub(crate) blocks: u64 = Count,
        /// The same per second and vCPU.
        pub(crate) blocks_per_s: f64 = PerSecond "sleeps/s",
        /// Time polled.
        pub(crate) poll_ns: Option<u64> = Nanos,
        /// The part of it in polls that failed.
        pub(crate) poll_fail_ns: Option<u64> = Nanos,
        /// Polling, for all vCPUs together.
        pub(crate) poll_cpu_percent: Option<f64> = CpuPercent "polling",
        /// Polling and switching, for all vCPUs together.
        pub(crate) cpu_percent: Option<f64> = CpuPercent "CPU",
        /// Wake-up latency in all.
        pub(crate) latency_ns: u64 = Nanos "total",
        /// Mean wake-up latency over all halts, 0 for those that did not sleep.
        pub(crate) latency_mean_ns: f64 = MeanNanos "mean",
        /// Median over all halts.
        pub(crate) latency_p50_ns: u64 = Nanos "p50",
        /// 95 of 100 halts are at most this late.
        pub(crate) latency_p95_ns: u64 = Nanos "p95",
        /// 99 of 100 halts are at most this late.
        pub(crate) latency_p99_ns: u64 = Nanos "p99",
        /// Exits on HLT: fewer than halts where the guest polled with success.
        pub(crate) hlt_exits: u64 = Count "HLT exits",
        /// Exits by which a timer's interrupt ended a poll in the guest; a halted vCPU needs none.
        pub(crate) timer_exits: u64 = Count,
        /// IPIs that vCPUs of the same guest had to send: none to one that polls in the guest
        /// (`TIF_POLLING_NRFLAG`).
        pub(crate) ipis: u64 = Count "IPIs",
        /// Polls in the guest that went on when another task wanted the CPU.
        pub(crate) contended_polls: u64 = Count,
        /// Exits that polling of the same success in the guest would avoid.
        pub(crate) avoidable_exits: u64 = Count,
        /// Time not asleep, in % (C0 residency).
        pub(crate) awake_percent: Option<f64> = CpuPercent "C0",
        /// `poll_ns` + blocks x `switch_cpu_ns` + `latency_weight` x `latency_ns` + (`hlt_exits` + `timer_exits`)
        /// x `exit_cpu_ns` + `ipis` x `ipi_cpu_ns`. `tune` and `prove` leave the last two out: they are the same
        /// under every setting of a host.
        pub(crate) cost_ns: Option<f64> = MeanNanos,
        /// The same relative to the oracle, the lower bound for these gaps.
        pub(crate) ratio: Option<f64> = Real "x oracle",
        /// Halts that slept for a time for which no wake-up was recorded.
        pub(crate) latency_guessed: u64 = Count,
        /// Halts that slept for a time for which fewer than sixteen undisturbed wake-ups were recorded, and none
        /// measured.
        pub(crate) latency_thin: u64 = Count,
        /// Halts that slept for a time for which fewer than sixteen wake-ups were recorded, and woke as calibrated
        /// or given.
        pub(crate) latency_calibrated: u64 = Count,
    }

    /// A line of the tables: a group as recorded, or under a policy.
    pub(crate) struct ReplayLine {
        /// The VM's name; empty for the host, and for halts of unknown VMs.
        pub(crate) name: Option<String> = Name "VM",
        /// The vCPU, in a group of one.
        pub(crate) vcpu: Option<u32> = Number,
        /// The policy; `recorded` for what was recorded.
        pub(crate) policy: String = Name,
        /// `zero`, or `ceiling` for the second steady state of a policy that has two.
        pub(crate) start: &'static str = Word,
        /// Halts.
        pub(crate) halts: u64 = Count,
        #[serde(flatten)]
        pub(crate) costs: HaltCosts = Flat(HaltCosts::FIGURES),
    }
}

impl HaltGroup {
    /// Lines of the recording and of each policy; a policy that has two steady states twice.
    pub(crate) fn lines(&self) -> Vec<ReplayLine> {
        let line = |policy: &str, start, costs: &HaltCosts| ReplayLine {
            name: self.name.clone(),
            vcpu: self.vcpu,
            policy: policy.to_owned(),
            start,
            halts: self.halts,
            costs: costs.clone(),
        };
        let mut lines = vec![line("recorded", "zero", &self.recorded)];
        for played in &self.played {
            lines.push(line(&played.policy, "zero", &played.from_zero));
            if played.bistable {
                lines.push(line(&played.policy, "ceiling", &played.from_ceiling));
            }
        }
        lines
    }
}
