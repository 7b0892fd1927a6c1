//! The plan that a recommendation comes to.

use haltwise_capture::info::CaptureInfo;
use haltwise_core::tune::interval::Interval as Confidence;

use crate::plan::{Basis, Effect, Expected, Goal, Interval, Plan, SCHEMA, Scope, Tool, VERSION};
use crate::recommend::candidates::SettingRow;
use crate::recommend::view::{HaltFigures, PlayedSettings, TuneResult};

/// Makes it.
pub(crate) fn plan(info: &CaptureInfo, view: &TuneResult) -> Plan {
    let ended = info.ended.as_ref();
    Plan {
        schema: SCHEMA.to_owned(),
        version: VERSION,
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
            halts: view.basis.halts,
        },
        goal: Goal {
            name: view.goal.name.clone(),
            lambda: view.goal.lambda,
            max_poll_cpu_percent: view.goal.max_poll_cpu_percent,
        },
        scope: Scope::Host,
        before: view.in_force,
        settings: view.for_host().unwrap_or_default(),
        expected: view.for_host().and_then(|_| expected(view)),
        reason: view.reason.clone(),
    }
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
