//! Turns and steps as data, in the JSON of `apply`, `undo` and `status`.

use haltwise_host::knob::{Left, Outcome, Settled, Turn, Why};
use serde::Serialize;

/// A change of one thing.
#[derive(Debug, Serialize)]
pub(crate) struct TurnView {
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
