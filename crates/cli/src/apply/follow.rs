//! `apply PLAN --follow`: VMs that come later get what the plan has for their name.

use std::collections::BTreeSet;
use std::time::Duration;

use haltwise_host::knob::{Request, Target};

use super::{ApplyOptions, act, say};
use crate::collect::interrupt::Interrupt;
use crate::exit::Outcome;
use crate::knob::ceilings;
use crate::knob::explain::explain;
use crate::plan::Plan;
use crate::terminal;

const EVERY: Duration = Duration::from_secs(2);
/// Between two looks whether a signal came.
const STEP: Duration = Duration::from_millis(100);

/// Goes on until a signal comes. `set` are the VMs of the plan's own apply, and `outcome` is what came of that.
pub(super) fn follow(
    options: &ApplyOptions,
    plan: &Plan,
    set: &[(Target, u32)],
    outcome: Outcome,
) -> Outcome {
    let interrupt = Interrupt::watch()?;
    let mut known: BTreeSet<Target> = set.iter().map(|(target, _)| *target).collect();
    terminal::say("Waiting for VMs of the plan; Ctrl-C ends it, and leaves what is set.");
    while interrupt.came().is_none() {
        for _ in 0..EVERY.as_millis() / STEP.as_millis() {
            if interrupt.came().is_some() {
                return outcome;
            }
            std::thread::sleep(STEP);
        }
        let (mut new, _) = ceilings::of_plan(&options.root, &plan.ceilings)?;
        new.retain(|(target, _)| known.insert(*target));
        for ceiling in new {
            // A request each: one that has ended again, or that another process changes, keeps no other from its
            // ceiling.
            let request = Request {
                wanted: vec![ceiling],
                take_over: options.take_over,
                ..Request::default()
            };
            match act(&options.root, &request) {
                Ok(view) => say(&view, options.json)?,
                Err(error) => terminal::complain(&explain(error)),
            }
        }
    }
    outcome
}
