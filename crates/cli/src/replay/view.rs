//! What a replay says: the JSON, and all that the text shows.

use std::collections::BTreeMap;

use haltwise_capture::info::CaptureInfo;
use haltwise_core::hist::LogHist;
use haltwise_core::ids::VmIndex;
use haltwise_core::policy::{Side, Spec};
use haltwise_core::replay::quicker::WAKE_PERCENT;
use haltwise_core::replay::session::{Played, SeatResult};
use haltwise_core::replay::{Arrivals, Cost, Doubts, Outcome};
use haltwise_core::stats::total;
use serde::Serialize;

use super::play::Replayed;
use super::price::Price;
use crate::costs::model::Model;

/// The whole result.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    /// Version of this shape.
    pub(crate) schema: u32,
    /// What it rests on.
    pub(crate) basis: Basis,
    /// VM by VM.
    pub(crate) vms: Vec<Group>,
    /// All of them together.
    pub(crate) host: Group,
}

/// What the figures rest on.
#[derive(Debug, Serialize)]
pub(crate) struct Basis {
    /// Whose algorithm, with which costs.
    #[serde(flatten)]
    pub(crate) model: Model,
    /// What exits and IPIs cost.
    #[serde(flatten)]
    pub(crate) price: Price,
    /// What a nanosecond of latency is worth in nanoseconds of CPU.
    pub(crate) latency_weight: f64,
    /// Events lost while recording.
    pub(crate) lost: u64,
    /// Halts that step back in time, left out.
    pub(crate) out_of_order: u64,
    /// On how many of the recorded halts assumptions rest, whatever the policy.
    pub(crate) doubts: Doubts,
    /// vCPUs whose guest switched host polling off: no setting of the host reaches them.
    pub(crate) vetoed_vcpus: u64,
    /// The capture is not whole.
    pub(crate) partial: bool,
}

/// Some vCPUs together.
#[derive(Debug, Serialize)]
pub(crate) struct Group {
    /// The VM's name; `None` for the host, and for halts of unknown VMs.
    pub(crate) name: Option<String>,
    /// Its VMM's process.
    pub(crate) pid: Option<u32>,
    /// The vCPU, where there is only one.
    pub(crate) vcpu: Option<u32>,
    /// vCPUs that halted.
    pub(crate) vcpus: u64,
    /// Halts.
    pub(crate) halts: u64,
    /// Median gap.
    pub(crate) gap_p50_ns: Option<u64>,
    /// As recorded.
    pub(crate) recorded: Row,
    /// Under each policy, from both starts.
    pub(crate) played: Vec<PlayedView>,
}

/// One policy on a group.
#[derive(Debug, Serialize)]
pub(crate) struct PlayedView {
    /// The policy, as it was given.
    pub(crate) policy: String,
    /// Who polls.
    pub(crate) side: Side,
    /// A lower bound, not a rule.
    #[serde(skip)]
    pub(crate) sees_the_future: bool,
    /// Beginning without a window.
    pub(crate) from_zero: Row,
    /// Beginning with the largest.
    pub(crate) from_ceiling: Row,
    /// The two end differently.
    pub(crate) bistable: bool,
    /// Beginning without a window, were wake-ups shorter than recorded. `None` where the recording polled,
    /// so that it shows what wake-ups are like then.
    pub(crate) quicker_wakes: Option<Quicker>,
    /// What polling in the guest is worth; `None` for policies of the host.
    pub(crate) in_guest: Option<InGuest>,
}

/// What would change if wake-ups were shorter than recorded.
#[derive(Debug, Serialize)]
pub(crate) struct Quicker {
    /// What is left of each wake-up.
    pub(crate) wake_percent: u64,
    /// Polls that ended in a wake.
    pub(crate) successful_polls: u64,
    /// Time polled.
    pub(crate) poll_ns: u64,
    /// Wake-up latency in all.
    pub(crate) latency_ns: u64,
    /// Cost in nanoseconds of CPU.
    pub(crate) cost_ns: f64,
}

impl Quicker {
    fn new(outcome: &Outcome, cost: &Cost) -> Self {
        Self {
            wake_percent: WAKE_PERCENT,
            successful_polls: outcome.successful_polls,
            poll_ns: outcome.poll_ns,
            latency_ns: outcome.latency_ns,
            cost_ns: outcome.cost_ns(cost),
        }
    }
}

/// A policy of the guest beside those of the host.
#[derive(Debug, Serialize)]
pub(crate) struct InGuest {
    /// The cheapest policy of the host that was played and exists.
    pub(crate) against: Option<String>,
    /// The price of an exit, and of an IPI, from which this costs less than that one; negative if it costs
    /// less without one. `None` if it spares none.
    pub(crate) exit_break_even_ns: Option<f64>,
}

/// A policy to be played.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The policy.
    pub(crate) spec: Spec,
    /// Who polls.
    pub(crate) side: Side,
    /// A yardstick, not a rule.
    pub(crate) sees_the_future: bool,
}

/// The figures of some halts. `None` where nobody recorded how long any of them polled.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// Halts of which nobody recorded how long they polled: they count as not polling.
    pub(crate) poll_unknown: u64,
    /// Halts that polled.
    pub(crate) polls: Option<u64>,
    /// Polls that ended in a wake.
    pub(crate) successful_polls: Option<u64>,
    /// Halts that slept: two context switches each.
    pub(crate) blocks: u64,
    /// Blocks per second and vCPU.
    pub(crate) blocks_per_s: f64,
    /// Time polled.
    pub(crate) poll_ns: Option<u64>,
    /// Of it, in vain.
    pub(crate) poll_fail_ns: Option<u64>,
    /// Polling, in % of a CPU for all vCPUs together.
    pub(crate) poll_cpu_percent: Option<f64>,
    /// Polling and switching, in % of a CPU for all vCPUs together.
    pub(crate) cpu_percent: Option<f64>,
    /// Wake-up latency in all.
    pub(crate) latency_ns: u64,
    /// Mean over all halts.
    pub(crate) latency_mean_ns: f64,
    /// Over all halts, 0 for those that did not sleep.
    pub(crate) latency_p50_ns: u64,
    /// The same.
    pub(crate) latency_p95_ns: u64,
    /// The same.
    pub(crate) latency_p99_ns: u64,
    /// Exits on HLT.
    pub(crate) hlt_exits: u64,
    /// Exits by which timers' interrupts ended polls in the guest.
    pub(crate) timer_exits: u64,
    /// IPIs that vCPUs of the same guest had to send.
    pub(crate) ipis: u64,
    /// Polls in the guest that went on when another task wanted the CPU.
    pub(crate) contended_polls: u64,
    /// Exits that polling of the same success in the guest would avoid.
    pub(crate) avoidable_exits: u64,
    /// Time not asleep, in % (C0 residency).
    pub(crate) awake_percent: Option<f64>,
    /// Cost in nanoseconds of CPU.
    pub(crate) cost_ns: Option<f64>,
    /// The same as a multiple of the least possible.
    pub(crate) ratio: Option<f64>,
    /// Halts that slept for a length of which no wake-up was recorded.
    pub(crate) latency_guessed: u64,
    /// Halts that slept for a length of which few wake-ups were recorded.
    pub(crate) latency_thin: u64,
    /// Halts that slept for a length of which few wake-ups were recorded, and woke as calibrated.
    pub(crate) latency_calibrated: u64,
}

impl Row {
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

/// vCPUs added up.
#[derive(Debug, Default)]
struct Sum {
    vcpus: u64,
    recorded: Outcome,
    played: Vec<Played>,
    gaps: LogHist,
}

impl Sum {
    fn add(&mut self, seat: &SeatResult) {
        self.vcpus += 1;
        self.recorded.add(&seat.recorded);
        self.gaps.merge(&seat.gaps);
        self.played.resize(seat.played.len(), Played::default());
        for (sum, played) in self.played.iter_mut().zip(&seat.played) {
            sum.add(played);
        }
    }

    /// The cheapest policy of the host that exists.
    fn cheapest<'a>(
        &'a self,
        subjects: &'a [Subject],
        cost: &Cost,
    ) -> Option<(&'a Spec, &'a Outcome)> {
        let both = subjects.iter().zip(&self.played);
        let host =
            both.filter(|(subject, _)| subject.side == Side::Host && !subject.sees_the_future);
        let outcomes = host.map(|(subject, played)| (&subject.spec, &played.from_zero));
        outcomes.min_by_key(|(_, outcome)| outcome.milli(cost))
    }

    fn group(&self, subjects: &[Subject], cost: &Cost) -> Group {
        let row = |outcome: &Outcome| Row::new(outcome, self.vcpus, cost);
        let cheapest = self.cheapest(subjects, cost);
        let in_guest = |played: &Played| InGuest {
            against: cheapest.map(|(spec, _)| spec.to_string()),
            exit_break_even_ns: cheapest
                .and_then(|(_, host)| played.from_zero.exit_break_even_ns(host, cost)),
        };
        let played = |(subject, played): (&Subject, &Played)| PlayedView {
            policy: subject.spec.to_string(),
            side: subject.side,
            sees_the_future: subject.sees_the_future,
            from_zero: row(&played.from_zero),
            from_ceiling: row(&played.from_ceiling),
            bistable: played.is_bistable(cost),
            quicker_wakes: (played.quicker.as_ref()).map(|outcome| Quicker::new(outcome, cost)),
            in_guest: (subject.side == Side::Guest).then(|| in_guest(played)),
        };
        Group {
            name: None,
            pid: None,
            vcpu: None,
            vcpus: self.vcpus,
            halts: self.recorded.halts,
            gap_p50_ns: self.gaps.percentile(0.5),
            recorded: row(&self.recorded),
            played: subjects.iter().zip(&self.played).map(played).collect(),
        }
    }
}

/// Adds up, names, and puts in order.
pub(crate) fn view(
    info: &CaptureInfo,
    replayed: &Replayed,
    subjects: &[Subject],
    arrivals: Arrivals,
    by_vcpu: bool,
    partial: bool,
) -> View {
    let cost = &replayed.cost;
    let mut host = Sum::default();
    let mut groups: BTreeMap<(Option<VmIndex>, Option<u32>), Sum> = BTreeMap::new();
    for seat in &replayed.seats {
        host.add(seat);
        let vcpu = seat.seat.vcpu.filter(|_| by_vcpu).map(|vcpu| vcpu.0);
        groups.entry((seat.seat.vm, None)).or_default().add(seat);
        let alone = replayed
            .seats
            .iter()
            .filter(|other| other.seat.vm == seat.seat.vm)
            .count()
            == 1;
        if vcpu.is_some() && !alone {
            groups.entry((seat.seat.vm, vcpu)).or_default().add(seat);
        }
    }
    let named = |((index, vcpu), sum): (&(Option<VmIndex>, Option<u32>), &Sum)| {
        let vm = info.roster.vms.iter().find(|vm| Some(vm.index) == *index);
        Group {
            name: vm.map(|vm| vm.name.clone()),
            pid: vm.map(|vm| vm.key.pid.0),
            vcpu: *vcpu,
            ..sum.group(subjects, cost)
        }
    };
    View {
        schema: super::SCHEMA,
        basis: basis(info, replayed, &host, arrivals, partial),
        vms: groups.iter().map(named).collect(),
        host: host.group(subjects, cost),
    }
}

fn basis(
    info: &CaptureInfo,
    replayed: &Replayed,
    host: &Sum,
    arrivals: Arrivals,
    partial: bool,
) -> Basis {
    let vetoed = info
        .roster
        .vcpus
        .iter()
        .filter(|vcpu| vcpu.guest_veto == Some(true));
    let first = host.played.first().map(|played| &played.from_zero);
    Basis {
        model: Model::new(
            info,
            [replayed.version.to_string(), replayed.arch.to_string()],
            replayed.knobs_assumed.clone(),
            &replayed.known,
            arrivals,
        ),
        price: replayed.price,
        latency_weight: replayed.cost.latency_weight_milli as f64 / 1e3,
        lost: total(info.lost.values()),
        out_of_order: replayed.seats.iter().map(|seat| seat.out_of_order).sum(),
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
