//! What apply says, as data: the JSON of `--json`.

use haltwise_host::knob::{Foreign, Left, Outcome, Proposal, Settled, Turn, Why};
use serde::Serialize;

use super::SCHEMA;
use super::watching::VmView;
use crate::plan::Plan;

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Applied {
    pub(crate) schema: u32,
    /// Whether it was done, and not only said.
    pub(crate) done: bool,
    /// The step that did it; `null` if there was nothing to do, or nothing was done.
    pub(crate) step: Option<u64>,
    /// Always `host`: for every VM without a cap of its own.
    pub(crate) scope: &'static str,
    pub(crate) turns: Vec<TurnView>,
    /// Parameters that have the wanted value already.
    pub(crate) already: Vec<Already>,
    pub(crate) warnings: Vec<String>,
    /// What somebody else had set and is taken over, in words.
    pub(crate) taken_over: Vec<String>,
    /// A step that somebody had left without an end.
    pub(crate) settled: Option<SettledView>,
    pub(crate) plan: Option<PlanView>,
    /// The VMs that run, once the ceiling was changed.
    pub(crate) vms: Vec<VmView>,
    /// Why they were not watched.
    pub(crate) vms_unwatched: Option<String>,
    /// The command that takes it back.
    pub(crate) undo: Option<String>,
}

/// A change of one thing.
#[derive(Debug, Serialize)]
pub(crate) struct TurnView {
    /// A parameter's name, or the path of a boot file.
    pub(crate) name: String,
    /// What it was: a number, a file's text, or `null` where there was none.
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
}

/// A parameter that has its value already.
#[derive(Debug, Serialize)]
pub(crate) struct Already {
    pub(crate) name: &'static str,
    pub(crate) value: u32,
}

/// Something that is left as it is.
#[derive(Debug, Serialize)]
pub(crate) struct LeftView {
    pub(crate) name: String,
    pub(crate) found: Option<String>,
    /// `theirs` or `rebooted`.
    pub(crate) why: &'static str,
}

/// A step without an end, and what became of it.
#[derive(Debug, Serialize)]
pub(crate) struct SettledView {
    pub(crate) step: u64,
    pub(crate) who: String,
    /// The step that it was to undo.
    pub(crate) undoes: Option<u64>,
    pub(crate) turns: Vec<SettledTurn>,
}

/// A turn of such a step.
#[derive(Debug, Serialize)]
pub(crate) struct SettledTurn {
    pub(crate) name: String,
    /// `done`, `not-done`, `theirs` or `mended`.
    pub(crate) result: &'static str,
}

/// The plan that was applied.
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

impl From<&Turn> for TurnView {
    fn from(turn: &Turn) -> Self {
        Self {
            name: turn.target.name(),
            old: turn.old.clone(),
            new: turn.new.clone(),
        }
    }
}

impl From<&Left> for LeftView {
    fn from(left: &Left) -> Self {
        Self {
            name: left.target.name(),
            found: left.found.clone(),
            why: match left.why {
                Why::Theirs => "theirs",
                Why::Rebooted => "rebooted",
            },
        }
    }
}

impl From<&Settled> for SettledView {
    fn from(settled: &Settled) -> Self {
        let intent = &settled.step.intent;
        let turns = intent.turns.iter().zip(&settled.results);
        Self {
            step: intent.step,
            who: settled.step.who.clone(),
            undoes: intent.undoes,
            turns: turns
                .map(|(turn, result)| SettledTurn {
                    name: turn.target.name(),
                    result: match result {
                        Outcome::Done => "done",
                        Outcome::NotDone => "not-done",
                        Outcome::Theirs => "theirs",
                        Outcome::Mended => "mended",
                    },
                })
                .collect(),
        }
    }
}

impl Applied {
    /// What would be done.
    pub(crate) fn new(
        proposal: &Proposal,
        settled: Option<&Settled>,
        warnings: Vec<String>,
        plan: Option<PlanView>,
    ) -> Self {
        let already = proposal.already.iter();
        Self {
            schema: SCHEMA,
            done: false,
            step: None,
            scope: "host",
            turns: proposal.turns.iter().map(TurnView::from).collect(),
            already: already
                .map(|(parameter, value)| Already {
                    name: parameter.name(),
                    value: *value,
                })
                .collect(),
            warnings,
            taken_over: proposal.taken_over.iter().map(Foreign::to_string).collect(),
            settled: settled.map(SettledView::from),
            plan,
            vms: Vec::new(),
            vms_unwatched: None,
            undo: None,
        }
    }
}
