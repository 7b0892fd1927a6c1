//! Makes a change of the pilot's, through the journal.

use haltwise_core::kvm::Knobs;
use haltwise_core::pilot::decision::{Change, Decision, Refusal};
use haltwise_core::pilot::input::Scope;
use haltwise_host::knob::{KnobError, Parameter, Request, Writer};
use haltwise_host::root::Root;

use crate::knob;

/// Sets what a decision wants.
pub(crate) fn make(
    root: &Root,
    decision: &Decision,
    change: Change,
    take_over: bool,
) -> Result<(), Refusal> {
    let request = Request {
        take_over,
        ..request(decision.scope, change)
    };
    set(root, &request).map_err(|error| refusal(&error))
}

fn request(scope: Scope, change: Change) -> Request {
    match scope {
        Scope::Vm(vm) => Request {
            ceilings: vec![(vm, change.to.halt_poll_ns)],
            ..Request::default()
        },
        Scope::Host => Request {
            parameters: parameters(change.from, change.to),
            ..Request::default()
        },
    }
}

/// Those that differ.
fn parameters(from: Knobs, to: Knobs) -> Vec<(Parameter, u32)> {
    let all = [
        Parameter::HaltPollNs,
        Parameter::Grow,
        Parameter::GrowStart,
        Parameter::Shrink,
    ];
    let differ = all.into_iter().filter_map(|parameter| {
        let value = knob::of_kvm(&to, parameter)?;
        (knob::of_kvm(&from, parameter) != Some(value)).then_some((parameter, value))
    });
    differ.collect()
}

fn set(root: &Root, request: &Request) -> Result<(), KnobError> {
    let mut writer = Writer::open(root, &knob::who(), None)?;
    let proposal = writer.propose(request)?;
    writer.apply(&proposal)?;
    Ok(())
}

fn refusal(error: &KnobError) -> Refusal {
    match error {
        KnobError::Theirs(_) | KnobError::Meanwhile { .. } => Refusal::Theirs,
        error if error.is_of_ended() => Refusal::Ended,
        error => Refusal::Failed(error.to_string()),
    }
}
