//! The plan that a recommendation for a guest comes to: parameters of its governor. Where its host should poll instead,
//! or nothing should change, it sets nothing and says why.

use haltwise_capture::info::CaptureInfo;
use haltwise_core::tune::interval::Interval as Confidence;

use super::{basis, end, goal, tool};
use crate::plan::{Effect, Expected, Interval, Plan, SCHEMA, Scope, Settings};
use crate::recommend::guest::view::{GuestFigures, GuestTuneResult};
use crate::recommend::guest::{GuestRow, Place, say};

pub(crate) fn plan(info: &CaptureInfo, view: &GuestTuneResult) -> Plan {
    let scope = Scope::Guest;
    let recommended = view.recommended.as_ref();
    Plan {
        schema: SCHEMA.to_owned(),
        version: scope.version(),
        tool: tool(),
        capture: basis(info, view.basis.halts),
        goal: goal(&view.goal),
        scope,
        before: Settings::of_guest(&view.in_force),
        settings: recommended.map_or_else(Settings::default, Settings::of_guest),
        ceilings: Vec::new(),
        expected: recommended.and_then(|_| expected(view)),
        reason: match view.place {
            Place::Host | Place::CpuPm => {
                let what = say::what(view.place, &view.in_force, recommended, &view.host);
                format!("{what} {}", view.reason)
            }
            Place::Guest | Place::Nowhere => view.reason.clone(),
        },
    }
}

fn expected(view: &GuestTuneResult) -> Option<Expected> {
    let against = view.against_in_force.as_ref()?;
    let row = |wanted| view.rows.iter().find(|of| of.row == wanted);
    let (before, after) = (row(GuestRow::InForce)?, row(GuestRow::Choice)?);
    let effect = |figure: fn(&GuestFigures) -> f64, interval: &Confidence| Effect {
        before: figure(before),
        after: figure(after),
        change_low: end(interval, interval.low),
        change_high: end(interval, interval.high),
    };
    Some(Expected {
        interval: Interval::Confidence95,
        halts: view.basis.judged_halts,
        cost_ns_per_halt: effect(|of| of.cost_ns_per_halt, &against.cost_ns_per_halt),
        poll_cpu_percent: effect(|of| of.poll_cpu_percent, &against.poll_cpu_percent),
        wake_latency_mean_ns: effect(|of| of.latency_mean_ns, &against.latency_mean_ns),
    })
}
