//! The plan that a recommendation comes to.

use haltwise_capture::info::CaptureInfo;
use haltwise_core::parameter::Values;
use haltwise_core::stats::Interval as Confidence;
use haltwise_core::tune::advice::Comparison;

use crate::number::nanos_f64;
use crate::plan::{Basis, Effect, Expected, Interval, Plan, PlannedCeiling, SCHEMA, Scope, Tool};
use crate::recommend::candidates::SettingRow;
use crate::recommend::guest::Place;
use crate::recommend::guest::view::GuestTuneResult;
use crate::recommend::recommendation::Recommendation;
use crate::recommend::view::{SettingPoint, TuneResult, VmCeiling, VmCeilings};

pub(crate) fn plan(info: &CaptureInfo, view: &TuneResult) -> Plan {
    let scope = match view.ceilings() {
        Some(_) => Scope::HostAndVms,
        None => Scope::Host,
    };
    Plan {
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
            None => view.recommendation.reason.clone(),
        },
        ..empty(info, scope, &view.recommendation, view.basis.search.halts)
    }
}

/// The plan that a recommendation for a guest comes to: parameters of its governor. Where its host should poll instead,
/// or nothing should change, it sets nothing and says why.
pub(crate) fn of_guest(info: &CaptureInfo, view: &GuestTuneResult) -> Plan {
    let of = &view.recommendation;
    let against = view.against_in_force.as_ref().filter(|_| of.changes);
    Plan {
        settings: of.recommended.unwrap_or_default(),
        expected: against
            .and_then(|against| expected_of(view.basis.search.judged_halts, against, of)),
        reason: match of.place {
            Some(Place::Host | Place::CpuPm) => format!("{}. {}", of.what(), of.reason),
            _ => of.reason.clone(),
        },
        ..empty(info, Scope::Guest, of, view.basis.search.halts)
    }
}

fn empty(info: &CaptureInfo, scope: Scope, of: &Recommendation, halts: u64) -> Plan {
    let ended = info.ended.as_ref();
    Plan {
        schema: SCHEMA.to_owned(),
        version: scope.version(),
        tool: Tool {
            name: "haltwise".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        capture: Basis {
            hostname: info.host.hostname.clone(),
            kernel_release: info.host.kernel_release.clone(),
            arch: info.host.arch.clone(),
            started_unix_ns: info.clock.start_unix_ns,
            ended_unix_ns: ended.and_then(|ended| info.clock.unix_ns(ended.time_ns)),
            halts,
        },
        goal: of.goal.clone(),
        scope,
        before: of.in_force,
        settings: Values::default(),
        ceilings: Vec::new(),
        expected: None,
        reason: String::new(),
    }
}

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
    let before = view.played.as_ref()?.figures(SettingRow::InForce)?;
    let costs = &own.costs;
    Some(effects(
        view.basis.search.judged_halts,
        &own.against_in_force,
        [
            costs.current_ns,
            before.poll_cpu_percent,
            before.latency_mean_ns,
        ],
        [costs.own_ns, own.poll_cpu_percent, own.latency_mean_ns],
    ))
}

fn expected(view: &TuneResult) -> Option<Expected> {
    match (&view.played, &view.counted) {
        (Some(played), _) => {
            let against = played.against_in_force.as_ref()?;
            expected_of(
                view.basis.search.judged_halts,
                against,
                &view.recommendation,
            )
        }
        (None, counted) => counted.as_ref()?.expected(),
    }
}

fn expected_of(halts: u64, against: &Comparison, of: &Recommendation) -> Option<Expected> {
    let [in_force, choice] = &of.figures[..] else {
        return None;
    };
    let figures =
        |of: &SettingPoint| [of.cost_ns_per_halt, of.poll_cpu_percent, of.latency_mean_ns];
    Some(effects(halts, against, figures(in_force), figures(choice)))
}

/// Expected effects for this many halts: cost of a halt, polling and latency before and after. An end of an interval is
/// the difference itself where nothing bounds it.
fn effects(halts: u64, against: &Comparison, before: [f64; 3], after: [f64; 3]) -> Expected {
    let effect = |nth: usize, interval: &Confidence| {
        let end = |end: f64| if end.is_finite() { end } else { interval.value };
        Effect {
            before: before[nth],
            after: after[nth],
            change_low: end(interval.low),
            change_high: end(interval.high),
        }
    };
    Expected {
        interval: Interval::Confidence95,
        halts,
        cost_ns_per_halt: effect(0, &against.cost_ns_per_halt),
        poll_cpu_percent: effect(1, &against.poll_cpu_percent),
        wake_latency_mean_ns: effect(2, &against.latency_mean_ns),
    }
}
