//! How a setting is put in force: through the machine's parameters, or through the command, which gives
//! each VM that it starts a ceiling of its own.

mod parameters;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::anyhow;
use haltwise_core::event::{CeilingSource, Halt};
use haltwise_core::kvm::Knobs;
use haltwise_host::root::Root;

use self::parameters::Parameters;
use super::ProofRequest;
use super::command::{self, PLACE};
use super::sides::{Sides, Which};
use crate::exit::{Exit, Failure};

#[derive(Debug, Default)]
pub(crate) struct Means {
    /// The command of each block; empty if there is none.
    command: Vec<OsString>,
    /// The command starts the measured VMs under the ceiling that it is passed.
    starts_vms: bool,
    /// The machine's parameters, where they are to be set.
    parameters: Option<Parameters>,
}

impl Means {
    /// Chooses, and checks that both settings can be reached so.
    pub(crate) fn choose(
        wanted: &ProofRequest,
        sides: &Sides,
        root: &Root,
    ) -> Result<Self, Failure> {
        let command = wanted.given.command.clone();
        let starts_vms = command::takes_ceiling(&command);
        if starts_vms {
            only_the_ceiling(wanted, sides)?;
        }
        let sets = !starts_vms && !sides.are_in_force();
        if sets && !wanted.given.yes {
            return Err(parameters::refusal(sides));
        }
        Ok(Self {
            command,
            starts_vms,
            parameters: sets.then(|| Parameters::take(root, sides)).transpose()?,
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        match &self.parameters {
            _ if self.starts_vms => "vm-ceiling",
            Some(parameters) => parameters.name(),
            None => "in-force",
        }
    }

    pub(crate) fn put(&mut self, sides: &Sides, is_b: bool) -> Result<(), Failure> {
        let parameters = self.parameters.as_mut();
        parameters.map_or(Ok(()), |it| it.put(sides, is_b))
    }

    pub(crate) fn writes(&self) -> Vec<PathBuf> {
        let parameters = self.parameters.as_ref();
        parameters.map_or_else(Vec::new, Parameters::writes)
    }

    pub(crate) fn restore(&mut self) -> Result<(), Failure> {
        let parameters = self.parameters.as_mut();
        parameters.map_or(Ok(()), Parameters::restore)
    }

    pub(crate) fn command(&self, ceiling_ns: u32) -> Option<Vec<OsString>> {
        (!self.command.is_empty()).then(|| command::with_ceiling(&self.command, ceiling_ns))
    }

    /// Whether the VMs that matter are those that the command starts.
    pub(crate) fn starts_vms(&self) -> bool {
        self.starts_vms
    }

    /// A host's parameters under which a block is recorded.
    pub(crate) fn recorded(&self, sides: &Sides, is_b: bool) -> Option<Knobs> {
        sides.knobs(if self.starts_vms {
            Which::InForce
        } else {
            Which::of(is_b)
        })
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
        let wanted = sides.knobs(Which::of(is_b))?;
        if let Some(ceiling_ns) = given {
            return Some((wanted, ceiling_ns));
        }
        let own = match halt.ceiling_source {
            CeilingSource::Cap | CeilingSource::Snapshot => halt.ceiling_ns,
            CeilingSource::Param | CeilingSource::Unknown => None,
        };
        Some(if self.starts_vms {
            (sides.knobs(Which::InForce)?, wanted.halt_poll_ns)
        } else {
            // A ceiling of the VM's own stays what it is.
            (wanted, own.unwrap_or(wanted.halt_poll_ns))
        })
    }

    /// Whether halts under another ceiling than the setting's say that it was not in force.
    pub(crate) fn sets(&self) -> bool {
        self.starts_vms || self.parameters.is_some()
    }
}

/// A command sets the ceiling and nothing else.
fn only_the_ceiling(wanted: &ProofRequest, sides: &Sides) -> Result<(), Failure> {
    let Some(in_force) = sides.knobs(Which::InForce) else {
        return Ok(());
    };
    let [a, b] = &wanted.pair.settings;
    for (name, setting, which) in [("--a", a, Which::A), ("--b", b, Which::B)] {
        let is_ceiling_alone = sides.knobs(which).is_none_or(|knobs| {
            let with_theirs = Knobs {
                halt_poll_ns: knobs.halt_poll_ns,
                ..in_force
            };
            knobs == with_theirs
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
