//! The plan that a recommendation for a guest comes to: parameters of its governor. Where its host should poll instead,
//! or nothing should change, it sets nothing and says why.

use haltwise_capture::info::CaptureInfo;
use haltwise_core::parameter::Values;

use super::{basis, expected_of, tool};
use crate::plan::{Expected, Plan, SCHEMA, Scope};
use crate::recommend::guest::view::GuestTuneResult;
use crate::recommend::guest::{GuestRow, Place, say};

pub(crate) fn plan(info: &CaptureInfo, view: &GuestTuneResult) -> Plan {
    let scope = Scope::Guest;
    let recommended = view.recommended.as_ref();
    Plan {
        schema: SCHEMA.to_owned(),
        version: scope.version(),
        tool: tool(),
        capture: basis(info, view.basis.halts),
        goal: view.goal.clone(),
        scope,
        before: view.in_force.into(),
        settings: recommended.map_or_else(Values::default, |of| Values::from(*of)),
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
    let of = |wanted| {
        let of = view.rows.iter().find(|of| of.row == wanted)?;
        Some([of.cost_ns_per_halt, of.poll_cpu_percent, of.latency_mean_ns])
    };
    Some(expected_of(
        view.basis.judged_halts,
        view.against_in_force.as_ref()?,
        of(GuestRow::InForce)?,
        of(GuestRow::Choice)?,
    ))
}
