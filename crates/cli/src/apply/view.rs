//! Output of apply, as data: the JSON of `--json`.

use haltwise_core::parameter::Parameter;
use haltwise_host::knob::{CutOff, Foreign, Proposal, Target};
use haltwise_host::root::Root;
use serde::Serialize;

use crate::knob::SCHEMA;
use crate::knob::ceilings::Unset;
use crate::knob::view::{ChangeView, CutOffView, name_of};
use crate::knob::watching::VmView;
use crate::plan::Plan;

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
    /// Ceilings of the plan that were not set.
    pub(crate) unset: Vec<Unset>,
    /// Externally modified settings that are taken over, in words.
    pub(crate) taken_over: Vec<String>,
    /// An apply or undo that was cut off before this one.
    pub(crate) settled: Option<CutOffView>,
    pub(crate) plan: Option<PlanView>,
    /// The VMs that run, once the ceiling was changed.
    pub(crate) vms: Vec<VmView>,
    /// Why they were not watched.
    pub(crate) vms_unwatched: Option<String>,
    pub(crate) undo: Option<String>,
}

/// A parameter or ceiling that has its value already.
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
    let of_vm = proposal.targets().any(Target::is_of_vm);
    let of_host = proposal.targets().any(|it| !it.is_of_vm());
    let parameters = || proposal.targets().filter_map(Target::parameter);
    if parameters().next().is_some() && parameters().all(Parameter::is_of_guest) && !of_vm {
        return "guest";
    }
    match (of_vm, of_host) {
        (true, true) => "both",
        (true, false) => "vm",
        (false, _) => "host",
    }
}

impl Applied {
    pub(crate) fn new(
        root: &Root,
        proposal: &Proposal,
        cut_off: Option<&CutOff>,
        warnings: Vec<String>,
        plan: Option<PlanView>,
    ) -> Self {
        let already = proposal.already.iter();
        Self {
            schema: SCHEMA,
            done: false,
            step: None,
            scope: scope(proposal),
            turns: (proposal.changes.iter())
                .map(|change| ChangeView::new(root, change))
                .collect(),
            already: already
                .map(|(target, value)| Already {
                    name: name_of(root, *target),
                    value: *value,
                })
                .collect(),
            warnings,
            unset: Vec::new(),
            taken_over: proposal.taken_over.iter().map(Foreign::to_string).collect(),
            settled: cut_off.map(|it| CutOffView::new(root, it)),
            plan,
            vms: Vec::new(),
            vms_unwatched: None,
            undo: None,
        }
    }
}
