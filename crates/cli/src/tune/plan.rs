//! The plan that a recommendation comes to; [`guest`] makes that of a guest.

pub(crate) mod guest;

use haltwise_capture::info::CaptureInfo;
use haltwise_core::tune::interval::Interval as Confidence;

use crate::number::nanos_f64;
use crate::plan::{
    Basis, Effect, Expected, Goal, Interval, Plan, PlannedCeiling, SCHEMA, Scope, Tool,
};
use crate::recommend::candidates::SettingRow;
use crate::recommend::view::{
    HaltFigures, PlayedSettings, TuneGoal, TuneResult, VmCeiling, VmCeilings,
};

pub(crate) fn plan(info: &CaptureInfo, view: &TuneResult) -> Plan {
    let scope = match view.ceilings() {
        Some(_) => Scope::HostAndVms,
        None => Scope::Host,
    };
    Plan {
        schema: SCHEMA.to_owned(),
        version: scope.version(),
        tool: tool(),
        capture: basis(info, view.basis.halts),
        goal: goal(&view.goal),
        scope,
        before: view.in_force,
        settings: view.for_host().unwrap_or_default(),
        ceilings: (view.ceilings().into_iter())
            .flat_map(|own| &own.vms)
            .filter_map(ceiling)
            .collect(),
        expected: match view.ceilings() {
            Some(own) => expected_of_ceilings(view, own),
            None => view.for_host().and_then(|_| expected(view)),
        },
        reason: match view.ceilings() {
            Some(own) => reason(own),
            None => view.reason.clone(),
        },
    }
}

fn tool() -> Tool {
    Tool {
        name: "haltwise".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn basis(info: &CaptureInfo, halts: u64) -> Basis {
    let ended = info.ended.as_ref();
    Basis {
        hostname: info.host.hostname.clone(),
        kernel_release: info.host.kernel_release.clone(),
        arch: info.host.arch.clone(),
        started_unix_ns: info.clock.start_unix_ns,
        ended_unix_ns: ended.and_then(|ended| info.clock.unix_ns(ended.time_ns)),
        halts,
    }
}

fn goal(of: &TuneGoal) -> Goal {
    Goal {
        name: of.name.clone(),
        lambda: of.lambda,
        max_poll_cpu_percent: of.max_poll_cpu_percent,
    }
}

/// One of a VM with a ceiling.
fn ceiling(of: &VmCeiling) -> Option<PlannedCeiling> {
    Some(PlannedCeiling {
        vm: of.name.clone()?,
        halt_poll_ns: of.ceiling_ns,
        goal: of.goal.clone(),
        lambda: of.lambda,
    })
}

fn reason(own: &VmCeilings) -> String {
    format!(
        "With ceilings of VMs a halt costs {} instead of {} under the best single setting and {} as recorded.",
        nanos_f64(own.costs.own_ns),
        nanos_f64(own.costs.one_ns),
        nanos_f64(own.costs.current_ns),
    )
}

fn expected_of_ceilings(view: &TuneResult, own: &VmCeilings) -> Option<Expected> {
    let played = view.played.as_ref()?;
    let before = figures(played, SettingRow::InForce)?;
    let against = &own.against_in_force;
    let effect = |before, after, interval: &Confidence| Effect {
        before,
        after,
        change_low: end(interval, interval.low),
        change_high: end(interval, interval.high),
    };
    let (polls, latency) = (own.poll_cpu_percent, own.latency_mean_ns);
    let costs = &own.costs;
    Some(Expected {
        interval: Interval::Confidence95,
        halts: view.basis.judged_halts,
        cost_ns_per_halt: effect(costs.current_ns, costs.own_ns, &against.cost_ns_per_halt),
        poll_cpu_percent: effect(before.poll_cpu_percent, polls, &against.poll_cpu_percent),
        wake_latency_mean_ns: effect(before.latency_mean_ns, latency, &against.latency_mean_ns),
    })
}

fn expected(view: &TuneResult) -> Option<Expected> {
    let played = match (&view.played, &view.counted) {
        (Some(played), _) => played,
        (None, Some(counted)) => return counted.expected(),
        (None, None) => return None,
    };
    let against = played.against_in_force.as_ref()?;
    let of = |row| figures(played, row);
    let effect = |figure: fn(&HaltFigures) -> f64, interval: &Confidence| {
        Some(Effect {
            before: figure(of(SettingRow::InForce)?),
            after: figure(of(SettingRow::Choice)?),
            change_low: end(interval, interval.low),
            change_high: end(interval, interval.high),
        })
    };
    Some(Expected {
        interval: Interval::Confidence95,
        halts: view.basis.judged_halts,
        cost_ns_per_halt: effect(|of| of.cost_ns_per_halt, &against.cost_ns_per_halt)?,
        poll_cpu_percent: effect(|of| of.poll_cpu_percent, &against.poll_cpu_percent)?,
        wake_latency_mean_ns: effect(|of| of.latency_mean_ns, &against.latency_mean_ns)?,
    })
}

/// An end of an interval; the difference itself where nothing bounds it.
fn end(interval: &Confidence, end: f64) -> f64 {
    if end.is_finite() { end } else { interval.value }
}

fn figures(played: &PlayedSettings, row: SettingRow) -> Option<&HaltFigures> {
    let found = played.rows.iter().find(|of| of.row == row);
    found.map(|of| &of.figures)
}
