//! `apply PLAN --follow`: VMs that come later get what the plan has for their name.

use std::collections::BTreeSet;
use std::time::Duration;

use haltwise_core::ids::VmKey;
use haltwise_host::knob::Request;

use super::{ApplyOptions, act, say};
use crate::collect::interrupt::Interrupt;
use crate::exit::{Failure, Outcome};
use crate::knob::ceilings;
use crate::plan::Plan;
use crate::terminal;

const EVERY: Duration = Duration::from_secs(2);
/// Between two looks whether a signal came.
const STEP: Duration = Duration::from_millis(100);

/// Goes on until a signal comes. `set` are the VMs of the plan's own apply, and `outcome` is what came of that.
pub(super) fn follow(
    options: &ApplyOptions,
    plan: &Plan,
    set: &[(VmKey, u32)],
    outcome: Outcome,
) -> Outcome {
    let interrupt = Interrupt::watch()?;
    let mut known: BTreeSet<VmKey> = set.iter().map(|(vm, _)| *vm).collect();
    terminal::say("Waiting for VMs of the plan; Ctrl-C ends it, and leaves what is set.");
    while interrupt.came().is_none() {
        for _ in 0..EVERY.as_millis() / STEP.as_millis() {
            if interrupt.came().is_some() {
                return outcome;
            }
            std::thread::sleep(STEP);
        }
        let mut new = keys(options, plan)?;
        new.retain(|(vm, _)| known.insert(*vm));
        for ceiling in new {
            // A request each: one that has ended again, or that another process changes, keeps no other from its
            // ceiling.
            let request = Request {
                ceilings: vec![ceiling],
                take_over: options.take_over,
                ..Request::default()
            };
            match act(options, &request, Vec::new(), None) {
                Ok(view) => say(&view, options.json)?,
                Err(failure) => terminal::complain(&failure),
            }
        }
    }
    outcome
}

fn keys(options: &ApplyOptions, plan: &Plan) -> Result<ceilings::Ceilings, Failure> {
    Ok(ceilings::of_plan(&options.root, &plan.ceilings)?.0)
}
