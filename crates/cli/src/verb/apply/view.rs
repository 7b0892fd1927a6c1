//! Output of apply, as data: the JSON of `--json`.

use haltwise_core::parameter::Parameter;
use haltwise_host::knob::effect::Watched;
use haltwise_host::knob::{Baseline, Change, Foreign, Proposal, Request, Snapshot, Target};
use haltwise_host::root::Root;
use serde::Serialize;

use crate::knob::ceilings::Unset;
use crate::knob::{ChangeView, CutOffView, SCHEMA, name_of};
use crate::plan::Plan;
use crate::state::command;

#[derive(Debug, Serialize)]
pub(crate) struct Applied {
    pub(crate) schema: u32,
    /// Whether it was done, and not only said.
    pub(crate) done: bool,
    /// Number of the apply that did it; `null` if there was nothing to do, or nothing was done.
    pub(crate) step: Option<u64>,
    /// `host`: for every VM without a ceiling of its own; `vm`: the ceilings of VMs, or in their guests; `both`.
    pub(crate) scope: &'static str,
    pub(crate) turns: Vec<ChangeView>,
    pub(crate) already: Vec<Already>,
    pub(crate) warnings: Vec<String>,
    pub(crate) unset: Vec<Unset>,
    /// Externally modified settings that are taken over, in words.
    pub(crate) taken_over: Vec<String>,
    /// An apply or undo that was cut off before this one.
    pub(crate) settled: Option<CutOffView>,
    pub(crate) plan: Option<PlanView>,
    /// The VMs that run, once the ceiling was changed.
    pub(crate) vms: Vec<Watched>,
    pub(crate) vms_unwatched: Option<String>,
    pub(crate) undo: Option<String>,
    /// The command that would be `undo`.
    #[serde(skip)]
    pub(crate) reverts: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Already {
    pub(crate) name: String,
    pub(crate) value: u32,
}

#[derive(Debug, Serialize)]
pub(crate) struct PlanView {
    pub(crate) goal: String,
    pub(crate) reason: String,
}

impl PlanView {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self {
            goal: plan.goal.name.clone(),
            reason: plan.reason.clone(),
        }
    }
}

fn scope(proposal: &Proposal) -> &'static str {
    let targets = || proposal.changes.iter().map(|it| it.target);
    let of_vm = targets().any(Target::is_of_vm);
    let of_host = targets().any(|it| !it.is_of_vm());
    let mut parameters = targets().filter_map(Target::parameter).peekable();
    if !of_vm && parameters.peek().is_some() && parameters.all(Parameter::is_of_guest) {
        return "guest";
    }
    match (of_vm, of_host) {
        (true, true) => "both",
        (true, false) => "vm",
        (false, _) => "host",
    }
}

impl Applied {
    /// A proposal, and what it means for the next boot. Targets of VMs that `ended` meanwhile are not set.
    pub(crate) fn new(
        root: &Root,
        now: &Snapshot,
        request: &Request,
        proposal: &Proposal,
        ended: &[Target],
    ) -> Self {
        let (already, turns): (Vec<&Change>, Vec<&Change>) =
            proposal.changes.iter().partition(|it| it.is_made());
        let turns = turns.into_iter().filter(|it| !ended.contains(&it.target));
        Self {
            schema: SCHEMA,
            done: false,
            step: None,
            scope: scope(proposal),
            turns: turns.map(|it| ChangeView::new(root, it)).collect(),
            already: (already.into_iter())
                .filter_map(|it| Already::of(root, it))
                .collect(),
            warnings: until_boot(&now.baseline, request),
            unset: ended.iter().map(|it| Unset::ended(root, *it)).collect(),
            taken_over: proposal.taken_over.iter().map(Foreign::to_string).collect(),
            settled: now.cut_off.as_ref().map(|it| CutOffView::new(root, it)),
            plan: None,
            vms: Vec::new(),
            vms_unwatched: None,
            undo: None,
            reverts: command(root, "undo"),
        }
    }
}

impl Already {
    fn of(root: &Root, change: &Change) -> Option<Self> {
        let value = change.target.number(change.new.as_deref()?)?;
        let name = name_of(root, change.target);
        Some(Self { name, value })
    }
}

/// Parameters that a boot file of haltwise sets to another value at the next boot.
fn until_boot(baseline: &Baseline, request: &Request) -> Vec<String> {
    let persisted = baseline.persisted();
    let wanted = request.parameters();
    let wanted = wanted.iter().filter(|_| !request.persist);
    let others = wanted.filter_map(|(parameter, value)| {
        let at_boot = persisted.get(parameter).filter(|it| *it != value)?;
        Some(format!(
            "{parameter} is {at_boot} again after the next boot, as --persist had it written"
        ))
    });
    others.collect()
}
