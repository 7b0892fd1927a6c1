//! How a setting is put in force: through the machine's parameters, or through the command, which gives
//! each VM that it starts a ceiling of its own.

mod parameters;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::anyhow;
use haltwise_core::event::{CeilingSource, Halt};
use haltwise_core::kvm::Knobs;
use haltwise_core::prove::setting::WantedPair;
use haltwise_host::root::Root;

use self::parameters::Parameters;
use super::ProofRequest;
use super::command::{self, PLACE};
use super::sides::{Sides, Which};
use crate::exit::{Exit, Failure};

#[derive(Debug)]
pub(crate) enum Means {
    /// The command starts VMs under the ceiling that it is given.
    Command(Vec<OsString>),
    /// The machine's parameters, and the command that makes the load, if there is one.
    Parameters(Box<Parameters>, Vec<OsString>),
    /// Nothing needs to be set: both settings are the one in force.
    InForce(Vec<OsString>),
}

impl Means {
    /// Chooses, and checks that both settings can be reached so.
    pub(crate) fn choose(
        wanted: &ProofRequest,
        sides: &Sides,
        root: &Root,
    ) -> Result<Self, Failure> {
        let command = wanted.given.command.clone();
        if command::takes_ceiling(&command) {
            only_the_ceiling(wanted, sides)?;
            return Ok(Self::Command(command));
        }
        if sides.are_in_force() {
            return Ok(Self::InForce(command));
        }
        if !wanted.given.yes {
            return Err(parameters::refusal(sides));
        }
        let parameters = Parameters::take(root, sides)?;
        Ok(Self::Parameters(Box::new(parameters), command))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Command(_) => "vm-ceiling",
            Self::Parameters(parameters, _) => parameters.name(),
            Self::InForce(_) => "in-force",
        }
    }

    pub(crate) fn put(&mut self, sides: &Sides, is_b: bool) -> Result<(), Failure> {
        match self {
            Self::Parameters(parameters, _) => parameters.put(sides, is_b),
            Self::Command(_) | Self::InForce(_) => Ok(()),
        }
    }

    pub(crate) fn writes(&self) -> Vec<PathBuf> {
        match self {
            Self::Parameters(parameters, _) => parameters.writes(),
            Self::Command(_) | Self::InForce(_) => Vec::new(),
        }
    }

    /// Puts back what was in force before.
    pub(crate) fn restore(&mut self) -> Result<(), Failure> {
        match self {
            Self::Parameters(parameters, _) => parameters.restore(),
            Self::Command(_) | Self::InForce(_) => Ok(()),
        }
    }

    /// The command of a block, if there is one.
    pub(crate) fn command(&self, ceiling_ns: u32) -> Option<Vec<OsString>> {
        let (Self::Command(words) | Self::Parameters(_, words) | Self::InForce(words)) = self;
        (!words.is_empty()).then(|| command::with_ceiling(words, ceiling_ns))
    }

    /// Whether the VMs that matter are those that the command starts.
    pub(crate) fn starts_vms(&self) -> bool {
        matches!(self, Self::Command(_))
    }

    /// A host's parameters under which a block is recorded.
    pub(crate) fn recorded(&self, sides: &Sides, is_b: bool) -> Option<Knobs> {
        let which = match self {
            Self::Command(_) => Which::InForce,
            Self::Parameters(..) | Self::InForce(_) => Which::of(is_b),
        };
        sides.knobs(which).copied()
    }

    /// A host's parameters and the ceiling, in nanoseconds, under which a replay plays the vCPU of a halt for
    /// another setting than the one it was recorded under; `given` is what that gives its VM. `None` in a guest.
    pub(crate) fn replayed(
        &self,
        sides: &Sides,
        is_b: bool,
        halt: &Halt,
        given: Option<u32>,
    ) -> Option<(Knobs, u32)> {
        let wanted = *sides.knobs(Which::of(is_b))?;
        if let Some(ceiling_ns) = given {
            return Some((wanted, ceiling_ns));
        }
        let own = match halt.ceiling_source {
            CeilingSource::Cap | CeilingSource::Snapshot => halt.ceiling_ns,
            CeilingSource::Param | CeilingSource::Unknown => None,
        };
        Some(match self {
            Self::Command(_) => (*sides.knobs(Which::InForce)?, wanted.halt_poll_ns),
            // A ceiling of the VM's own stays what it is.
            Self::Parameters(..) | Self::InForce(_) => (wanted, own.unwrap_or(wanted.halt_poll_ns)),
        })
    }

    /// Whether halts under another ceiling than the setting's say that it was not in force.
    pub(crate) fn sets(&self) -> bool {
        !matches!(self, Self::InForce(_))
    }
}

/// A command sets the ceiling and nothing else.
fn only_the_ceiling(wanted: &ProofRequest, sides: &Sides) -> Result<(), Failure> {
    let (WantedPair::Host([a, b]), Some(in_force)) = (&wanted.pair, sides.knobs(Which::InForce))
    else {
        return Ok(());
    };
    for (name, setting, which) in [("--a", a, Which::A), ("--b", b, Which::B)] {
        let is_ceiling_alone = sides.knobs(which).is_none_or(|knobs| {
            let with_theirs = Knobs {
                halt_poll_ns: knobs.halt_poll_ns,
                ..*in_force
            };
            *knobs == with_theirs
        });
        if is_ceiling_alone {
            continue;
        }
        let Knobs {
            grow,
            grow_start,
            shrink,
            ..
        } = in_force;
        let error = anyhow!(
            "{name} {setting} asks for more than a ceiling, and {PLACE} in the command sets the VM's \
             ceiling alone: growing and shrinking follow the host's parameters (in force: \
             grow={grow},grow_start={grow_start}ns,shrink={shrink})"
        );
        return Err(Failure::new(Exit::Usage, error).hint(format!(
            "leave {PLACE} out of the command and the host's own parameters are set (--yes)"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod test;
