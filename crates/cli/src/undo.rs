//! What `haltwise undo` does: takes steps back, and says what it left to others.

mod text;

use haltwise_host::knob::{Fault, Keeper, KnobError, Look, Reversal, Which, Why};
use haltwise_host::root::Root;
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::knob::explain::explain;
use crate::knob::view::{LeftView, SettledView, TurnView};
use crate::knob::{SCHEMA, who};
use crate::terminal;

/// What to do.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) steps: Steps,
    pub(crate) dry_run: bool,
    pub(crate) take_over: bool,
    pub(crate) json: bool,
    pub(crate) root: Root,
    pub(crate) fault: Option<Fault>,
}

/// Which steps.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Steps {
    Newest,
    One(u64),
    All,
}

/// Everything that is said; the JSON of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Undone {
    pub(crate) schema: u32,
    /// Whether it was done, and not only said.
    pub(crate) done: bool,
    /// In the order in which they are undone.
    pub(crate) steps: Vec<UndoneStep>,
    /// A step that somebody had left without an end.
    pub(crate) settled: Option<SettledView>,
    /// Steps that stay in force, newest first.
    pub(crate) in_force: Vec<u64>,
}

/// A step that is undone.
#[derive(Debug, Serialize)]
pub(crate) struct UndoneStep {
    pub(crate) step: u64,
    /// Who made it.
    pub(crate) who: String,
    pub(crate) turns: Vec<TurnView>,
    pub(crate) left: Vec<LeftView>,
}

/// Undoes, or says what it would.
pub(crate) fn run(wanted: &Wanted) -> Outcome {
    let (undone, theirs) = if wanted.dry_run {
        look(wanted)?
    } else {
        act(wanted)?
    };
    terminal::show(wanted.json, &undone, |undone| {
        text::render(undone, terminal::columns())
    })?;
    Ok(if theirs { Exit::Partial } else { Exit::Done })
}

fn which(steps: Steps) -> Which {
    match steps {
        Steps::One(step) => Which::Step(step),
        Steps::Newest | Steps::All => Which::Newest,
    }
}

fn look(wanted: &Wanted) -> Result<(Undone, bool), Failure> {
    let look = Look::at(&wanted.root).map_err(explain)?;
    let look = look.ok_or_else(|| explain(KnobError::busy(&wanted.root)))?;
    let reversals = match wanted.steps {
        Steps::All => look.reversals(wanted.take_over),
        one => look
            .reversal(which(one), wanted.take_over)
            .map(|reversal| vec![reversal]),
    };
    let reversals = reversals.map_err(explain)?;
    let undone: Vec<u64> = reversals.iter().map(|it| it.of.number).collect();
    let numbers = look.state.steps.iter().rev().map(|step| step.number);
    Ok((
        Undone {
            schema: SCHEMA,
            done: false,
            steps: reversals.iter().map(view).collect(),
            settled: look.open.as_ref().map(SettledView::from),
            in_force: numbers.filter(|it| !undone.contains(it)).collect(),
        },
        reversals.iter().any(leaves_theirs),
    ))
}

fn act(wanted: &Wanted) -> Result<(Undone, bool), Failure> {
    // Where nothing was ever done, nothing is made either.
    if let Some(look) = Look::at(&wanted.root).map_err(explain)?
        && look.open.is_none()
    {
        look.reversal(which(wanted.steps), wanted.take_over)
            .map_err(explain)?;
    }
    let mut keeper = Keeper::open(&wanted.root, &who(), wanted.fault).map_err(explain)?;
    let mut undone = Vec::new();
    let mut theirs = false;
    loop {
        let reversal = match keeper.reversal(which(wanted.steps), wanted.take_over) {
            Err(KnobError::Nothing) if !undone.is_empty() || keeper.settled().is_some() => break,
            other => other.map_err(explain)?,
        };
        keeper.undo(&reversal).map_err(explain)?;
        theirs |= leaves_theirs(&reversal);
        undone.push(view(&reversal));
        if !matches!(wanted.steps, Steps::All) {
            break;
        }
    }
    let numbers = keeper.state().steps;
    Ok((
        Undone {
            schema: SCHEMA,
            done: true,
            steps: undone,
            settled: keeper.settled().map(SettledView::from),
            in_force: numbers.iter().rev().map(|step| step.number).collect(),
        },
        theirs,
    ))
}

fn leaves_theirs(reversal: &Reversal) -> bool {
    reversal.leaves.iter().any(|left| left.why == Why::Theirs)
}

fn view(reversal: &Reversal) -> UndoneStep {
    UndoneStep {
        step: reversal.of.number,
        who: reversal.of.who.clone(),
        turns: reversal.turns.iter().map(TurnView::from).collect(),
        left: reversal.leaves.iter().map(LeftView::from).collect(),
    }
}
