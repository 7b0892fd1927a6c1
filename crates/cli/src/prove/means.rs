//! How a setting is put in force: through the host's parameters, or through the command, which gives
//! each VM that it starts a ceiling of its own.

mod parameters;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::anyhow;
use haltwise_core::event::{CeilingSource, Halt};
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_host::root::Root;
use haltwise_host::{clock, params};

use self::parameters::Parameters;
use super::ProofRequest;
use super::command::{self, PLACE};
use super::scopes::Scopes;
use crate::exit::{Exit, Failure};
use crate::reading::knobs::knobs_of;

/// What both settings come to on this host.
#[derive(Debug, Clone)]
pub(crate) struct Sides {
    /// What was in force at the beginning.
    pub(crate) in_force: Knobs,
    /// Parameters that this host does not tell, taken at its kernel's defaults.
    pub(crate) assumed: Vec<&'static str>,
    /// Under A.
    pub(crate) a: Knobs,
    /// Under B.
    pub(crate) b: Knobs,
    /// The kernel.
    pub(crate) version: Version,
    /// Its port.
    pub(crate) arch: Arch,
    /// VMs that a plan gives ceilings.
    pub(crate) scopes: Scopes,
}

impl Sides {
    /// Reads what is in force, and what the settings come to.
    pub(crate) fn read(wanted: &ProofRequest, root: &Root) -> Result<Self, Failure> {
        let name = rustix::system::uname();
        let release = name.release().to_string_lossy();
        let version: Version = release.parse()?;
        let machine = name.machine().to_string_lossy();
        let arch = Arch::of_machine(&machine).unwrap_or(Arch::X86);
        let told = params::read(root, clock::monotonic_ns())?;
        let (in_force, assumed) = knobs_of(&told, version, arch);
        let scopes = match &wanted.plan {
            Some(plan) => Scopes::of(plan, root)?,
            None => Scopes::default(),
        };
        Ok(Self {
            scopes,
            in_force,
            assumed,
            a: wanted.a.resolve(in_force, version, arch),
            b: wanted.b.resolve(in_force, version, arch),
            version,
            arch,
        })
    }

    /// The setting of a block.
    pub(crate) fn under(&self, is_b: bool) -> Knobs {
        if is_b { self.b } else { self.a }
    }
}

/// How a setting is put in force.
#[derive(Debug)]
pub(crate) enum Means {
    /// The command starts VMs under the ceiling that it is given.
    Command(Vec<OsString>),
    /// The host's parameters, and the command that makes the load, if there is one.
    Host(Box<Parameters>, Vec<OsString>),
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
        let command = wanted.command.clone();
        if command::takes_ceiling(&command) {
            only_the_ceiling(wanted, sides)?;
            return Ok(Self::Command(command));
        }
        if sides.scopes.is_empty() && sides.a == sides.in_force && sides.b == sides.in_force {
            return Ok(Self::InForce(command));
        }
        if !wanted.yes {
            return Err(parameters::refusal(sides));
        }
        let parameters = Parameters::take(root, sides)?;
        Ok(Self::Host(Box::new(parameters), command))
    }

    /// The name in data.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Command(_) => "vm-ceiling",
            Self::Host(parameters, _) => parameters.name(),
            Self::InForce(_) => "in-force",
        }
    }

    /// Puts a setting in force.
    pub(crate) fn put(&mut self, sides: &Sides, is_b: bool) -> Result<(), Failure> {
        match self {
            Self::Host(parameters, _) => parameters.put(sides, is_b),
            Self::Command(_) | Self::InForce(_) => Ok(()),
        }
    }

    /// The directories in which that writes.
    pub(crate) fn writes(&self) -> Vec<PathBuf> {
        match self {
            Self::Host(parameters, _) => parameters.writes(),
            Self::Command(_) | Self::InForce(_) => Vec::new(),
        }
    }

    /// Puts back what was in force before.
    pub(crate) fn restore(&mut self) -> Result<(), Failure> {
        match self {
            Self::Host(parameters, _) => parameters.restore(),
            Self::Command(_) | Self::InForce(_) => Ok(()),
        }
    }

    /// The command of a block, if there is one.
    pub(crate) fn command(&self, knobs: &Knobs) -> Option<Vec<OsString>> {
        let (Self::Command(words) | Self::Host(_, words) | Self::InForce(words)) = self;
        (!words.is_empty()).then(|| command::with_ceiling(words, knobs.halt_poll_ns))
    }

    /// Whether the VMs that matter are those that the command starts.
    pub(crate) fn starts_vms(&self) -> bool {
        matches!(self, Self::Command(_))
    }

    /// The parameters under which a block is recorded.
    pub(crate) fn recorded(&self, sides: &Sides, is_b: bool) -> Knobs {
        match self {
            Self::Command(_) => sides.in_force,
            Self::Host(..) | Self::InForce(_) => sides.under(is_b),
        }
    }

    /// The parameters and the ceiling, in nanoseconds, under which a replay plays the vCPU of a halt for
    /// another setting than the one it was recorded under; `given` is what that gives its VM.
    pub(crate) fn replayed(
        &self,
        sides: &Sides,
        is_b: bool,
        halt: &Halt,
        given: Option<u32>,
    ) -> (Knobs, u32) {
        let wanted = sides.under(is_b);
        if let Some(ceiling_ns) = given {
            return (wanted, ceiling_ns);
        }
        let own = match halt.ceiling_source {
            CeilingSource::Cap | CeilingSource::Snapshot => halt.ceiling_ns,
            CeilingSource::Param | CeilingSource::Unknown => None,
        };
        match self {
            Self::Command(_) => (sides.in_force, wanted.halt_poll_ns),
            // A ceiling of the VM's own stays what it is.
            Self::Host(..) | Self::InForce(_) => (wanted, own.unwrap_or(wanted.halt_poll_ns)),
        }
    }

    /// Whether halts under another ceiling than the setting's say that it was not in force.
    pub(crate) fn sets(&self) -> bool {
        !matches!(self, Self::InForce(_))
    }
}

/// A command sets the ceiling and nothing else.
fn only_the_ceiling(wanted: &ProofRequest, sides: &Sides) -> Result<(), Failure> {
    for (name, setting, knobs) in [("--a", &wanted.a, sides.a), ("--b", &wanted.b, sides.b)] {
        let with_theirs = Knobs {
            halt_poll_ns: knobs.halt_poll_ns,
            ..sides.in_force
        };
        if knobs == with_theirs {
            continue;
        }
        let Knobs {
            grow,
            grow_start,
            shrink,
            ..
        } = sides.in_force;
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
