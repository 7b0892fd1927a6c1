//! The result of a replay: each figure with its name, unit and meaning.

use std::collections::BTreeMap;

use haltwise_capture::info::CaptureInfo;
use haltwise_core::event::Vm;
use haltwise_core::hist::LogHist;
use haltwise_core::ids::VmIndex;
use haltwise_core::policy::{Side, Spec};
use haltwise_core::replay::session::{Played, VcpuResult};
use haltwise_core::replay::{Cost, Doubts, Outcome};
use haltwise_core::stats::{Fold, total};
use haltwise_document::figures;

use super::play::{ReplayModel, Replayed};
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
        /// Version of this layout: 3.
        pub(crate) schema: u32 = Number,
        pub(crate) basis: ReplayBasis = Record(ReplayBasis::FIGURES),
        /// A group for each VM.
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

#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) spec: Spec,
    pub(crate) side: Side,
    /// A lower bound, not a rule.
    pub(crate) sees_the_future: bool,
}

impl HaltCosts {
    fn new(outcome: &Outcome, vcpus: u64, cost: &Cost) -> Self {
        // Each vCPU was seen for its own time; together they were for about the mean of these.
        let wall_ns = outcome.span_ns as f64 / vcpus.max(1) as f64;
        let of_a_cpu = |ns: u64| 100.0 * ns as f64 / wall_ns.max(1.0);
        let percentile = |p| outcome.latency.percentile(p).unwrap_or(0);
        let known = outcome.is_poll_known();
        Self {
            poll_unknown: outcome.poll_unknown,
            polls: known.then_some(outcome.polls),
            successful_polls: known.then_some(outcome.successful_polls),
            blocks: outcome.blocks,
            blocks_per_s: outcome.blocks as f64 / (outcome.span_ns.max(1) as f64 / 1e9),
            poll_ns: known.then_some(outcome.poll_ns),
            poll_fail_ns: known.then_some(outcome.poll_fail_ns),
            poll_cpu_percent: known.then(|| of_a_cpu(outcome.poll_ns)),
            cpu_percent: known.then(|| of_a_cpu(outcome.cpu_ns(cost))),
            latency_ns: outcome.latency_ns,
            latency_mean_ns: outcome.latency_ns as f64 / outcome.halts.max(1) as f64,
            latency_p50_ns: percentile(0.5),
            latency_p95_ns: percentile(0.95),
            latency_p99_ns: percentile(0.99),
            hlt_exits: outcome.hlt_exits,
            timer_exits: outcome.timer_exits,
            ipis: outcome.ipis,
            contended_polls: outcome.contended_polls,
            avoidable_exits: (outcome.hlt_exits).saturating_sub(outcome.blocks),
            awake_percent: outcome
                .awake_share()
                .filter(|_| known)
                .map(|share| share * 100.0),
            cost_ns: known.then(|| outcome.cost_ns(cost)),
            ratio: outcome.ratio(cost).filter(|_| known),
            latency_guessed: outcome.doubts.latency_guessed,
            latency_thin: outcome.doubts.latency_thin,
            latency_calibrated: outcome.doubts.latency_calibrated,
        }
    }
}

#[derive(Debug, Default)]
struct Sum {
    vcpus: u64,
    recorded: Outcome,
    played: Vec<Played>,
    gaps: LogHist,
}

impl Sum {
    fn add(&mut self, seat: &VcpuResult) {
        self.vcpus += 1;
        self.recorded.fold(&seat.recorded);
        self.gaps.merge(&seat.gaps);
        self.played.resize(seat.played.len(), Played::default());
        for (sum, played) in self.played.iter_mut().zip(&seat.played) {
            sum.add(played);
        }
    }
}

impl Sum {
    fn group(&self, subjects: &[Subject], cost: &Cost) -> HaltGroup {
        let row = |outcome: &Outcome| HaltCosts::new(outcome, self.vcpus, cost);
        let played = |(subject, played): (&Subject, &Played)| PlayedPolicy {
            policy: subject.spec.to_string(),
            side: subject.side,
            sees_the_future: subject.sees_the_future,
            from_zero: row(&played.from_zero),
            from_ceiling: row(&played.from_ceiling),
            bistable: played.is_bistable(cost),
        };
        HaltGroup {
            name: None,
            pid: None,
            vcpus: self.vcpus,
            halts: self.recorded.halts,
            gap_p50_ns: self.gaps.percentile(0.5),
            recorded: row(&self.recorded),
            played: subjects.iter().zip(&self.played).map(played).collect(),
        }
    }
}

pub(crate) fn build(
    info: &CaptureInfo,
    replayed: Replayed,
    subjects: &[Subject],
    partial: bool,
) -> Replay {
    let Replayed { seats, model } = replayed;
    let cost = &model.cost;
    // The first of two with one index.
    let vms = info.roster.vms.iter().rev();
    let vms: BTreeMap<VmIndex, &Vm> = vms.map(|vm| (vm.index, vm)).collect();
    let (mut host, mut out_of_order) = (Sum::default(), 0);
    let mut seats = seats.peekable();
    let mut groups = Vec::new();
    // Each VM is done with before the next one begins, so that those of many do not lie in memory together.
    while let Some(index) = seats.peek().map(|seat| seat.seat.vm) {
        let mut sum = Sum::default();
        while let Some(seat) = seats.next_if(|next| next.seat.vm == index) {
            sum.add(&seat);
            host.add(&seat);
            out_of_order += seat.out_of_order;
        }
        let vm = index.and_then(|index| vms.get(&index));
        groups.push(HaltGroup {
            name: vm.map(|vm| vm.name.clone()),
            pid: vm.map(|vm| vm.key.pid.0),
            ..sum.group(subjects, cost)
        });
    }
    Replay {
        schema: super::SCHEMA,
        basis: basis(info, &model, (&host, out_of_order), partial),
        vms: groups,
        host: host.group(subjects, cost),
    }
}

fn basis(
    info: &CaptureInfo,
    replayed: &ReplayModel,
    (host, out_of_order): (&Sum, u64),
    partial: bool,
) -> ReplayBasis {
    let vetoed = info
        .roster
        .vcpus
        .iter()
        .filter(|vcpu| vcpu.guest_veto == Some(true));
    let first = host.played.first().map(|played| &played.from_zero);
    ReplayBasis {
        model: Model::new(
            info,
            [replayed.version.to_string(), replayed.arch.to_string()],
            replayed.knobs_assumed.clone(),
            &replayed.known,
        ),
        price: replayed.price,
        latency_weight: replayed.cost.latency_weight_milli as f64 / 1e3,
        lost: total(info.lost.values()),
        out_of_order,
        doubts: Doubts {
            latency_guessed: 0,
            latency_thin: 0,
            latency_calibrated: 0,
            ..first.map(|outcome| outcome.doubts).unwrap_or_default()
        },
        vetoed_vcpus: vetoed.count() as u64,
        partial,
    }
}
