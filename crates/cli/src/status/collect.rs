//! Asks the journal, the parameters and the VMs.

use haltwise_capture::info::Clock;
use haltwise_core::kvm::Knobs;
use haltwise_host::knob::{self, JOURNAL, KnobError, Look, Parameter, State, Step, Target};
use haltwise_host::root::{Root, RootError};
use haltwise_host::support::KernelRelease;

use super::view::{Journal, KnobView, Persisted, Status, StepView};
use crate::exit::Failure;
use crate::knob::explain::explain;
use crate::knob::view::{SettledView, TurnView};
use crate::knob::{SCHEMA, watching};

/// Collects everything.
pub(crate) fn collect(root: &Root) -> Result<Status, Failure> {
    let kernel = KernelRelease::read(root)?;
    let look = look(root)?;
    let state = look
        .as_ref()
        .map_or_else(|_| State::default(), |it| it.state.clone());
    let foreign = match &look {
        Ok(look) => look.foreign().map_err(explain)?,
        Err(_) => Vec::new(),
    };
    let defaults =
        watching::kernel(&kernel.text).map(|(version, arch)| Knobs::defaults(version, arch));
    let is_foreign = |target| foreign.iter().any(|it| it.target == target);
    let knob = |parameter: Parameter| {
        let target = Target::Parameter(parameter);
        let value = crate::knob::value(root, parameter);
        let default = defaults.map(|it| default(&it, parameter));
        let ours = state.last_turn(target).filter(|_| !is_foreign(target));
        KnobView {
            name: parameter.name(),
            value,
            default,
            set_by: match ours {
                Some(_) => "haltwise",
                None if value == default => "default",
                None if look.is_err() => "unknown",
                None => "other",
            },
            step: ours.map(|(step, _)| step.number),
        }
    };
    let vms = crate::knob::vms(root);
    let persisted = knob::persisted(&state).into_iter();
    Ok(Status {
        schema: SCHEMA,
        kernel: kernel.to_string(),
        // The ceiling first, as people think of it.
        knobs: Parameter::ALL.into_iter().rev().map(knob).collect(),
        steps: state
            .steps
            .iter()
            .rev()
            .map(|it| step(&state, it))
            .collect(),
        persisted: persisted
            .map(|(parameter, value)| Persisted {
                name: parameter.name(),
                value,
            })
            .collect(),
        theirs: foreign.iter().map(ToString::to_string).collect(),
        vms: vms.rows,
        vms_unwatched: vms.unwatched,
        journal: journal(root, &look),
    })
}

/// The journal, or why nothing of it is known.
fn look(root: &Root) -> Result<Result<Look, String>, Failure> {
    match Look::at(root) {
        Ok(Some(look)) => Ok(Ok(look)),
        Ok(None) => Ok(Err("another haltwise is writing it".to_owned())),
        Err(
            error @ (KnobError::Denied { .. }
            | KnobError::Untrusted { .. }
            | KnobError::Read(RootError::Denied { .. })),
        ) => Ok(Err(error.to_string())),
        Err(error) => Err(explain(error)),
    }
}

fn step(state: &State, step: &Step) -> StepView {
    let counts = |held: &&knob::Held| state.counts(held);
    let gone = step.turns.iter().filter(|held| !state.counts(held));
    StepView {
        step: step.number,
        time: Clock::new(0, step.unix_ns).start_utc,
        who: step.who.clone(),
        turns: (step.turns.iter().filter(counts))
            .map(|held| TurnView::from(&held.turn))
            .collect(),
        gone: gone.map(|held| held.turn.target.name()).collect(),
        persists: step.persists(),
        undo: format!("haltwise undo --step {}", step.number),
    }
}

fn journal(root: &Root, look: &Result<Look, String>) -> Journal {
    let known = look.as_ref().ok();
    Journal {
        path: root.path(JOURNAL).display().to_string(),
        entries: known.map(|it| it.entries.len()),
        unknown: look.as_ref().err().cloned(),
        torn_bytes: known.map_or(0, |it| it.torn_bytes),
        open: known.and_then(|it| it.open.as_ref()).map(SettledView::from),
    }
}

fn default(knobs: &Knobs, parameter: Parameter) -> u32 {
    match parameter {
        Parameter::HaltPollNs => knobs.halt_poll_ns,
        Parameter::Grow => knobs.grow,
        Parameter::GrowStart => knobs.grow_start,
        Parameter::Shrink => knobs.shrink,
    }
}
