//! What an apply or an undo would do: looked up, compared, and refused where it is not ours to do.
//!
//! Nothing here writes.

use std::collections::BTreeMap;

use super::boot_files::{self, persisted};
use super::entry::{BootFile, Intent, Left, Target, Turn, Why};
use super::error::{Foreign, KnobError};
use super::machine;
use super::parameter::Parameter;
use super::state::{State, Step};
use crate::root::Root;

/// What somebody wants to have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    /// Parameters and their values.
    pub parameters: Vec<(Parameter, u32)>,
    /// To outlast a boot.
    pub persist: bool,
    /// Also where somebody else has set it since we did.
    pub take_over: bool,
}

/// What an apply would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// What would be turned, in order.
    pub turns: Vec<Turn>,
    /// Parameters that have the wanted value already.
    pub already: Vec<(Parameter, u32)>,
    /// What is somebody else's and would be taken over.
    pub taken_over: Vec<Foreign>,
    takes_over: Vec<Target>,
}

/// Looks what a wish comes to. Fails where a parameter is not there, is read-only for everybody, or is
/// somebody else's and is not to be taken over.
pub(super) fn apply(root: &Root, state: &State, wish: &Wish) -> Result<Proposal, KnobError> {
    let mut wanted = wish.parameters.clone();
    wanted.sort_unstable();
    let mut proposal = Proposal {
        turns: Vec::new(),
        already: Vec::new(),
        taken_over: Vec::new(),
        takes_over: Vec::new(),
    };
    for (parameter, value) in &wanted {
        let target = Target::Parameter(*parameter);
        let found = Some(machine::writable(root, *parameter)?);
        proposal
            .taken_over
            .extend(foreign(state, target, found.as_deref()));
        let new = Some(value.to_string());
        if found == new {
            proposal.already.push((*parameter, *value));
        } else {
            let old = found;
            proposal.turns.push(Turn::plain(target, old, new));
        }
    }
    if wish.persist {
        persist(root, state, wish, &mut proposal)?;
    }
    if !proposal.taken_over.is_empty() && !wish.take_over {
        return Err(KnobError::Theirs(proposal.taken_over));
    }
    let foreign = proposal.taken_over.iter().map(|foreign| foreign.target);
    proposal.takes_over.extend(foreign);
    Ok(proposal)
}

/// Adds the boot files. Where they change, a parameter that has its value already is set all the same:
/// so the step knows what it goes back to once a boot has made the file the one who set it.
fn persist(
    root: &Root,
    state: &State,
    wish: &Wish,
    proposal: &mut Proposal,
) -> Result<(), KnobError> {
    let files = boot_files::here(root);
    if files.is_empty() {
        return Err(KnobError::NoPlace);
    }
    let mut found = Vec::new();
    for file in files {
        let target = Target::File(file);
        found.push((file, target, machine::read(root, target)?));
    }
    // What a file said that somebody else has changed since is not ours to say again.
    let is_ours = |(_, target, text): &(BootFile, Target, Option<String>)| {
        foreign(state, *target, text.as_deref()).is_none()
    };
    let mut values = if found.iter().all(is_ours) {
        persisted(state)
    } else {
        BTreeMap::new()
    };
    values.extend(wish.parameters.iter().copied());
    let mut turns = Vec::new();
    for (file, target, old) in found {
        let new = Some(file.text(&values));
        if state.last_turn(target).is_some() {
            proposal
                .taken_over
                .extend(foreign(state, target, old.as_deref()));
        } else if old.is_some() {
            if !wish.take_over {
                let path = root.path(target.path());
                return Err(KnobError::Occupied { path });
            }
            proposal.takes_over.push(target);
        }
        if old != new {
            let old_form = match &old {
                Some(text) if !file.is_ours(text) => Some(machine::form(root, target)?),
                _ => None,
            };
            turns.push(Turn {
                old_form,
                ..Turn::plain(target, old, new)
            });
        }
    }
    if !turns.is_empty() {
        let same = proposal.already.iter().map(|(parameter, value)| {
            let value = Some(value.to_string());
            Turn::plain(Target::Parameter(*parameter), value.clone(), value)
        });
        proposal.turns.extend(same);
        proposal.turns.sort_by_key(|turn| turn.target);
        proposal.turns.extend(turns);
    }
    Ok(())
}

/// Says so if something that we turned is not as we left it, or was somebody else's before.
pub(super) fn foreign(state: &State, target: Target, found: Option<&str>) -> Option<Foreign> {
    let told = |ours: &Option<String>, step, who: &String| Foreign {
        target,
        found: found.map(str::to_owned),
        ours: ours.clone(),
        step,
        who: who.clone(),
    };
    if let Some(lost) = state.left.get(&target) {
        return Some(told(&lost.ours, lost.step, &lost.who));
    }
    let (step, turn) = state.last_turn(target)?;
    (turn.new.as_deref() != found).then(|| told(&turn.new, step.number, &step.who))
}

impl Proposal {
    pub(super) fn intent(&self, step: u64) -> Intent {
        Intent {
            step,
            undoes: None,
            takes_over: self.takes_over.clone(),
            turns: self.turns.clone(),
            leaves: Vec::new(),
        }
    }
}

/// Which step is to be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The newest that is in force.
    Newest,
    /// This one.
    Step(u64),
}

/// What an undo would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reversal {
    /// The step that would be undone.
    pub of: Step,
    /// What would be turned, in order.
    pub turns: Vec<Turn>,
    /// What would be left as it is.
    pub leaves: Vec<Left>,
    takes_over: Vec<Target>,
}

/// Looks what undoing a step comes to, by the state in this boot and by what `read` says is there.
pub(super) fn undo(
    read: impl Fn(Target) -> Result<Option<String>, KnobError>,
    state: &State,
    which: Which,
    take_over: bool,
) -> Result<Reversal, KnobError> {
    let of = match which {
        Which::Newest => state.steps.last().ok_or(KnobError::Nothing)?,
        Which::Step(number) => state.step(number).ok_or_else(|| no_step(state, number))?,
    };
    let mut reversal = Reversal {
        of: of.clone(),
        turns: Vec::new(),
        leaves: Vec::new(),
        takes_over: Vec::new(),
    };
    for held in of.turns.iter().rev() {
        let (target, turn) = (held.turn.target, &held.turn);
        // Also if a boot has taken ours away: the later one may go back to what ours says.
        if let Some(later) = state.last_step_on(target).filter(|it| *it != of.number) {
            return Err(KnobError::Later {
                wanted: of.number,
                later,
                name: target.name(),
            });
        }
        let found = read(target)?;
        let counts = state.counts(held);
        let gone = target.parameter().is_some() && found.is_none();
        let why = if gone || (!counts && !held.lost) {
            Some(Why::Rebooted)
        } else if held.lost || (found != turn.new && !take_over) {
            Some(Why::Theirs)
        } else {
            None
        };
        if let Some(why) = why {
            reversal.leaves.push(Left { target, found, why });
            continue;
        }
        if found != turn.new {
            reversal.takes_over.push(target);
        }
        let (old, new) = (found, turn.old.clone());
        reversal.turns.push(Turn {
            new_form: turn.old_form.clone(),
            ..Turn::plain(target, old, new)
        });
    }
    Ok(reversal)
}

fn no_step(state: &State, wanted: u64) -> KnobError {
    if state.steps.is_empty() {
        return KnobError::Nothing;
    }
    let numbers = state.steps.iter().map(|step| step.number.to_string());
    let numbers: Vec<String> = numbers.collect();
    KnobError::NoStep {
        wanted,
        in_force: numbers.join(", "),
    }
}

impl Reversal {
    pub(super) fn intent(&self, step: u64) -> Intent {
        Intent {
            step,
            undoes: Some(self.of.number),
            takes_over: self.takes_over.clone(),
            turns: self.turns.clone(),
            leaves: self.leaves.clone(),
        }
    }
}
