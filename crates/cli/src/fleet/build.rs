//! The result, computed from the sums.

use haltwise_core::costs::GRID;
use haltwise_core::costs::grid::{OFF, Shape};
use haltwise_core::fleet::answer::{OfCohort, Plan};
use haltwise_core::fleet::vms::VmAnswer;
use haltwise_core::kvm::Knobs;

use super::SCHEMA;
use super::load::LoadedFleet;
use super::view::{
    Assumed, FleetCohort, FleetPlan, FleetRead, FleetResult, FleetSetting, LosingVm,
};
use crate::number::nanos;
use crate::recommend::goal::Weight;

#[derive(Debug, clap::Args)]
pub(crate) struct Assumptions {
    #[command(flatten)]
    pub(crate) weight: Weight,
    /// Hosts that CPUs are computed for [default: those in the tables]
    #[arg(long, value_name = "N")]
    hosts: Option<u64>,
}

pub(crate) fn build(loaded: LoadedFleet, assumptions: &Assumptions) -> FleetResult {
    let LoadedFleet {
        fleet,
        answer,
        files,
        refused,
    } = loaded;
    let [hosts, days, captures] = fleet.counts();
    let halts = answer.plans.first().map_or(0, |plan| plan.sums.halts);
    let assumed = Assumed {
        lambda: assumptions.weight.milli() as f64 / 1e3,
        goal: assumptions.weight.goal.as_str().to_owned(),
        hosts: assumptions.hosts.unwrap_or(hosts as u64),
    };
    let lengths_ns = fleet.units().values().map(|of| of.span_ns);
    let span_ns = haltwise_core::stats::total(lengths_ns.clone().map(|ns| ns / 2));
    FleetResult {
        schema: SCHEMA,
        read: FleetRead {
            tables: files,
            rows: fleet.rows,
            refused,
            rows_of_other_grids: fleet.unknown,
            grid: GRID,
            hosts,
            vms: answer.seen.vms,
            days,
            captures,
            shortest_ns: lengths_ns.clone().min().unwrap_or(0),
            longest_ns: lengths_ns.max().unwrap_or(0),
            halts,
            unit: fleet.level(),
        },
        by: fleet.asked.by.iter().map(ToString::to_string).collect(),
        one: setting(&answer.one),
        verdict: answer.verdict,
        plans: answer
            .plans
            .iter()
            .map(|it| plan(it, span_ns, &assumed))
            .collect(),
        cohorts: answer.cohorts.iter().map(cohort).collect(),
        with_ceiling: answer.seen.with_ceiling,
        had_ceiling: answer.seen.had_ceiling,
        losers: answer.seen.losers,
        losing: (answer.seen.losing.iter())
            .map(|it| losing(&it.vm, it.loss))
            .collect(),
        assumed,
    }
}

fn short(knobs: &Knobs) -> String {
    if *knobs == OFF {
        return "off".to_owned();
    }
    let ceiling = nanos(u64::from(knobs.halt_poll_ns));
    match Shape::of(knobs) {
        Some(Shape::Halving) => ceiling,
        Some(Shape::Dropping) => format!("{ceiling}, shrink 0"),
        Some(Shape::Fixed) => format!("{ceiling} fixed"),
        Some(Shape::Toggle) => format!("{ceiling} or 0"),
        None => format!("{ceiling}, other"),
    }
}

fn setting(knobs: &Knobs) -> FleetSetting {
    FleetSetting {
        setting: short(knobs),
        halt_poll_ns: knobs.halt_poll_ns,
        halt_poll_ns_grow: knobs.grow,
        halt_poll_ns_grow_start: knobs.grow_start,
        halt_poll_ns_shrink: knobs.shrink,
    }
}

fn plan(plan: &Plan, span_ns: u64, assumed: &Assumed) -> FleetPlan {
    let hosts = assumed.hosts as f64;
    FleetPlan {
        plan: plan.kind,
        cost_per_halt_ns: plan.sums.per_halt_ns(),
        cost_milli: plan.sums.milli.to_string(),
        gain: plan.gain,
        latency_mean_ns: plan.sums.latency_mean_ns(),
        cpus: plan.sums.cpu_ns as f64 / span_ns.max(1) as f64 * hosts,
        cpus_saved: plan.cpus_saved.map(|it| it * hosts),
    }
}

fn cohort(of: &OfCohort) -> FleetCohort {
    FleetCohort {
        cohort: of.cohort.name(),
        hosts: of.hosts,
        vms: of.vms,
        halts: of.in_force.halts,
        setting: setting(&of.knobs),
        verdict: of.verdict,
        takes: of.takes,
        now_per_halt_ns: of.in_force.per_halt_ns(),
        cost_per_halt_ns: of.own.per_halt_ns(),
        one_per_halt_ns: of.one.per_halt_ns(),
        gain: of.gain,
        latency_now_mean_ns: of.in_force.latency_mean_ns(),
        latency_mean_ns: of.own.latency_mean_ns(),
        cpus_saved_per_host: of.cpus_saved,
    }
}

fn losing(vm: &VmAnswer, loss: f64) -> LosingVm {
    let per_halt = |milli: u128| milli as f64 / 1e3 / vm.halts.max(1) as f64;
    LosingVm {
        vm: vm.name.clone().unwrap_or_default(),
        host: vm.host.clone(),
        cohort: vm.cohort.name(),
        halts: vm.halts,
        now_per_halt_ns: per_halt(vm.in_force.milli),
        cost_per_halt_ns: per_halt(vm.then.milli),
        loss,
        ceiling_ns: vm.ceiling_ns,
    }
}
