//! Changes as data, in the JSON of `apply`, `undo` and `status`.

use haltwise_host::knob::{Change, CutOff, Left, Outcome, Why};
use serde::Serialize;

/// A change of one target.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeView {
    /// A parameter's name, or the path of a boot file.
    pub(crate) name: String,
    /// What it was: a number, a file's text, or `null` where there was none.
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
}

/// Something that is left as it is.
#[derive(Debug, Serialize)]
pub(crate) struct LeftView {
    pub(crate) name: String,
    pub(crate) found: Option<String>,
    /// `theirs` or `rebooted`.
    pub(crate) why: &'static str,
}

/// An apply or undo that was cut off, and what became of it.
#[derive(Debug, Serialize)]
pub(crate) struct CutOffView {
    pub(crate) step: u64,
    pub(crate) who: String,
    /// The apply that it was to undo.
    pub(crate) undoes: Option<u64>,
    pub(crate) turns: Vec<CutOffChange>,
}

/// A change of such an apply.
#[derive(Debug, Serialize)]
pub(crate) struct CutOffChange {
    pub(crate) name: String,
    /// `done`, `not-done` or `theirs`.
    pub(crate) result: Outcome,
}

impl From<&Change> for ChangeView {
    fn from(change: &Change) -> Self {
        Self {
            name: change.target.name(),
            old: change.old.clone(),
            new: change.new.clone(),
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

impl From<&CutOff> for CutOffView {
    fn from(cut_off: &CutOff) -> Self {
        let turns = cut_off.results.iter().map(|(target, result)| CutOffChange {
            name: target.name(),
            result: *result,
        });
        Self {
            step: cut_off.step,
            who: cut_off.who.clone(),
            undoes: cut_off.undo.then_some(cut_off.step),
            turns: turns.collect(),
        }
    }
}
