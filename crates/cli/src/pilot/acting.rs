//! Makes a change of the pilot's, through the journal, and only where what is in force is what the decision rests on.

use haltwise_core::parameter::Values;
use haltwise_core::pilot::decision::{Change, Refusal};
use haltwise_core::pilot::input::Scope;
use haltwise_host::knob::{KnobError, Request, Target, Writer};
use haltwise_host::root::Root;

use crate::knob;

pub(crate) fn make(
    root: &Root,
    scope: Scope,
    change: Change,
    take_over: bool,
) -> Result<(), Refusal> {
    let mut request = Request {
        take_over,
        ..Request::default()
    };
    // Values that must be in force before the change.
    let mut expected = Vec::new();
    match scope {
        Scope::Vm(vm) => {
            request
                .wanted
                .push((Target::Ceiling(vm), change.to.halt_poll_ns));
            expected.push((Target::Ceiling(vm), change.from.halt_poll_ns));
        }
        Scope::Host => {
            let from = Values::from(change.from);
            for (parameter, to) in Values::from(change.to).iter() {
                // A change that failed may have been made of any of them.
                let is_unsure = change.is_unsure && root.exists(parameter.path());
                if let Some(from) = from.get(parameter)
                    && (from != to || is_unsure)
                {
                    let target = Target::Parameter(parameter);
                    request.wanted.push((target, to));
                    expected.push((target, from));
                }
            }
        }
    }
    // The lock is held from the look to the write, and the write looks once more.
    let set = || {
        let mut writer = Writer::open(root, &knob::who())?;
        let proposal = writer.propose_on(&request, &expected, change.is_unsure)?;
        writer.apply(&proposal)
    };
    set().map(drop).map_err(refusal)
}

fn refusal(error: KnobError) -> Refusal {
    match error {
        KnobError::Theirs(_) | KnobError::Meanwhile { .. } | KnobError::Otherwise(_) => {
            Refusal::Theirs
        }
        KnobError::Follows(_) => Refusal::Moved,
        error if error.is_of_ended() => Refusal::Ended,
        error => Refusal::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod test;
