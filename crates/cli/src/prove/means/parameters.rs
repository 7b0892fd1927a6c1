//! The host's own parameters: set through the one hand that writes to the machine, journal first.
//!
//! At most one step of ours is in force at a time: the last is undone before the next is made. So
//! `haltwise undo` puts the host back even if we are killed.

use std::path::PathBuf;

use anyhow::anyhow;
use haltwise_core::kvm::Knobs;
use haltwise_host::knob::{Keeper, KnobError, Parameter, Proposal, Which, Wish};
use haltwise_host::root::Root;

use super::Sides;
use crate::exit::{Exit, Failure};

/// Whose hand the journal names.
const WHO: &str = "haltwise prove";

/// The parameters, while they are ours.
#[derive(Debug)]
pub(crate) struct Parameters {
    keeper: Keeper,
    /// Those that either setting changes.
    names: Vec<Parameter>,
    /// What they were when we came.
    before: Knobs,
    /// The step that is in force.
    step: Option<u64>,
    under: Option<Knobs>,
}

fn value(knobs: &Knobs, parameter: Parameter) -> u32 {
    match parameter {
        Parameter::Grow => knobs.grow,
        Parameter::GrowStart => knobs.grow_start,
        Parameter::Shrink => knobs.shrink,
        Parameter::HaltPollNs => knobs.halt_poll_ns,
    }
}

/// The parameters that either setting changes.
fn changed(sides: &Sides) -> Vec<Parameter> {
    let differs = |parameter: &Parameter| {
        let now = value(&sides.in_force, *parameter);
        value(&sides.a, *parameter) != now || value(&sides.b, *parameter) != now
    };
    Parameter::ALL.into_iter().filter(differs).collect()
}

/// What would be written, for those who did not say --yes.
pub(super) fn refusal(sides: &Sides) -> Failure {
    let one = |parameter: Parameter| {
        let [now, a, b] = [sides.in_force, sides.a, sides.b].map(|knobs| value(&knobs, parameter));
        format!("{parameter} to {a} and {b} alternately (now {now})")
    };
    let all: Vec<String> = changed(sides).into_iter().map(one).collect();
    let error = anyhow!(
        "this would set {} for all VMs of this host: not without --yes",
        all.join(", ")
    );
    Failure::new(Exit::Usage, error).hint(format!(
        "the current values are restored at the end; or give a command that starts the VMs, with {} \
         where it takes their ceiling, and nothing on the host is changed",
        super::command::PLACE
    ))
}

impl Parameters {
    /// Takes hold of the journal and looks whether both settings can be made.
    pub(super) fn take(root: &Root, sides: &Sides) -> Result<Self, Failure> {
        let keeper = Keeper::open(root, WHO, None).map_err(explain)?;
        let parameters = Self {
            keeper,
            names: changed(sides),
            before: sides.in_force,
            step: None,
            under: None,
        };
        for knobs in [&sides.a, &sides.b] {
            let wish = parameters.wish(knobs);
            parameters.keeper.propose(&wish).map_err(explain)?;
        }
        Ok(parameters)
    }

    /// The directories in which that writes.
    pub(super) fn writes(&self) -> Vec<PathBuf> {
        self.keeper.writes()
    }

    fn wish(&self, knobs: &Knobs) -> Wish {
        let pair = |parameter: &Parameter| (*parameter, value(knobs, *parameter));
        Wish {
            parameters: self.names.iter().map(pair).collect(),
            ..Wish::default()
        }
    }

    /// Puts a setting in force.
    pub(super) fn put(&mut self, knobs: &Knobs) -> Result<(), Failure> {
        if self.under == Some(*knobs) {
            return Ok(());
        }
        self.restore()?;
        let proposal = self.keeper.propose(&self.wish(knobs)).map_err(explain)?;
        self.look_for_others(&proposal)?;
        self.step = self.keeper.apply(&proposal).map_err(explain)?;
        self.under = Some(*knobs);
        Ok(())
    }

    /// With no step of ours in force, all is as it was when we came, unless somebody else has a hand in
    /// it: then this host is theirs.
    fn look_for_others(&self, proposal: &Proposal) -> Result<(), Failure> {
        let turns = proposal.turns.iter();
        let old = turns.filter_map(|turn| {
            let found = turn.old.as_ref()?.parse().ok()?;
            Some((turn.target.parameter()?, found))
        });
        let mut found = proposal.already.iter().copied().chain(old);
        let theirs = found.find(|(parameter, found)| *found != value(&self.before, *parameter));
        let Some((parameter, found)) = theirs else {
            return Ok(());
        };
        let was = value(&self.before, parameter);
        let error = anyhow!(
            "{parameter} was modified externally to {found} (it was {was}) and is left alone"
        );
        Err(Failure::new(Exit::Failed, error)
            .hint("measure again when nothing else changes settings"))
    }

    /// Puts back what was in force before.
    pub(super) fn restore(&mut self) -> Result<(), Failure> {
        self.under = None;
        let Some(step) = self.step.take() else {
            return Ok(());
        };
        let undone = self.keeper.reversal(Which::Step(step), false);
        let undone = undone.and_then(|reversal| {
            let left = reversal.leaves.len();
            self.keeper.undo(&reversal).map(|()| left)
        });
        match undone {
            Ok(0) => Ok(()),
            Ok(left) => {
                let error =
                    anyhow!("{left} of the parameters were modified externally and are left alone");
                Err(Failure::new(Exit::Failed, error)
                    .hint("`haltwise status` shows the current settings"))
            }
            Err(error) => {
                let error = anyhow::Error::new(error).context("restore the host's parameters");
                Err(Failure::new(Exit::Failed, error).hint("`haltwise undo` tries again"))
            }
        }
    }
}

impl Drop for Parameters {
    /// Whatever happens here, the host gets back what it had; the journal is for what happens elsewhere.
    fn drop(&mut self) {
        if let Err(failure) = self.restore() {
            crate::terminal::complain(&failure);
        }
    }
}

fn explain(error: KnobError) -> Failure {
    let (exit, hint) = match &error {
        KnobError::NoKvm | KnobError::Absent(_) | KnobError::ReadOnly { .. } => (
            Exit::Unsupported,
            "give a command that starts the VMs, with {halt_poll_ns} where it takes their ceiling",
        ),
        KnobError::Denied { .. } => (Exit::Denied, "run as root"),
        KnobError::Busy { .. } => (Exit::Failed, "wait until it has ended"),
        KnobError::Theirs(_) | KnobError::Meanwhile { .. } => (
            Exit::Failed,
            "the parameters were modified externally: undo the steps of haltwise first",
        ),
        _ => (Exit::Failed, "`haltwise status` shows the current settings"),
    };
    Failure::new(exit, error).hint(hint)
}

#[cfg(test)]
mod test;
