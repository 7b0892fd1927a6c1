//! The result of a replay, computed from what was played on each vCPU.

use std::collections::BTreeMap;

use haltwise_capture::info::CaptureInfo;
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::policy::{Side, Spec};
use haltwise_core::replay::session::Played;
use haltwise_core::replay::{Cost, Doubts, Outcome};
use haltwise_core::stats::total;

use super::play::{ReplayModel, Replayed};
use super::sums::{OfVm, Sum, Whose};
use super::view::{
    GuestPolling, HaltCosts, HaltGroup, OtherWakes, PlayedPolicy, Replay, ReplayBasis,
};
use crate::prices::model::Model;

#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) spec: Spec,
    pub(crate) side: Side,
    /// A lower bound, not a rule.
    pub(crate) sees_the_future: bool,
}

impl OtherWakes {
    fn new(outcome: &Outcome, cost: &Cost) -> Self {
        Self {
            successful_polls: outcome.successful_polls,
            poll_ns: outcome.poll_ns,
            latency_ns: outcome.latency_ns,
            cost_ns: outcome.cost_ns(cost),
        }
    }
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

impl Sum {
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

    pub(super) fn group(&self, subjects: &[Subject], cost: &Cost) -> HaltGroup {
        let row = |outcome: &Outcome| HaltCosts::new(outcome, self.vcpus, cost);
        let cheapest = self.cheapest(subjects, cost);
        let in_guest = |played: &Played| GuestPolling {
            against: cheapest.map(|(spec, _)| spec.to_string()),
            exit_break_even_ns: cheapest
                .and_then(|(_, host)| played.from_zero.exit_break_even_ns(host, cost)),
        };
        let played = |(subject, played): (&Subject, &Played)| PlayedPolicy {
            policy: subject.spec.to_string(),
            side: subject.side,
            sees_the_future: subject.sees_the_future,
            from_zero: row(&played.from_zero),
            from_ceiling: row(&played.from_ceiling),
            bistable: played.is_bistable(cost),
            early_wakes: (played.early.as_ref()).map(|it| OtherWakes::new(it, cost)),
            late_wakes: (played.late.as_ref()).map(|it| OtherWakes::new(it, cost)),
            in_guest: (subject.side == Side::Guest).then(|| in_guest(played)),
        };
        HaltGroup {
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

pub(crate) fn build(
    info: &CaptureInfo,
    replayed: Replayed,
    (subjects, by_vcpu): (&[Subject], bool),
    partial: bool,
) -> Replay {
    let Replayed { seats, model } = replayed;
    let cost = &model.cost;
    // The first of two with one index.
    let vms = info.roster.vms.iter().rev();
    let vms: BTreeMap<VmIndex, &Vm> = vms.map(|vm| (vm.index, vm)).collect();
    let named = |((index, vcpu), sum): (Whose, &Sum)| {
        let vm = index.and_then(|index| vms.get(&index));
        HaltGroup {
            name: vm.map(|vm| vm.name.clone()),
            pid: vm.map(|vm| vm.key.pid.0),
            vcpu,
            ..sum.group(subjects, cost)
        }
    };
    let (mut host, mut out_of_order) = (Sum::default(), 0);
    let seats = seats.inspect(|seat| {
        host.add(seat);
        out_of_order += seat.out_of_order;
    });
    let mut groups = Vec::new();
    for of_vm in OfVm::each(seats, by_vcpu) {
        groups.extend(of_vm.groups().map(named));
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
