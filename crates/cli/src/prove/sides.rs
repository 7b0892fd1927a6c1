//! Both settings on this machine: their values, how they are put in force, and what a replay plays under them. On a host
//! these are KVM's four parameters, in a guest the five of its governor.
//!
//! [`guest`] has what holds of a guest alone.

pub(crate) mod guest;

use anyhow::anyhow;
use haltwise_core::event::{CeilingSource, Halt};
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::policy::Spec;
use haltwise_core::prove::setting::{GivenSetting, policy_of_guest};
use haltwise_core::recording::Side;
use haltwise_host::root::Root;
use haltwise_host::{clock, params};

use super::ProofRequest;
use super::command::{PLACE, takes_ceiling};
use super::scopes::Scopes;
use crate::exit::{Exit, Failure};
use crate::reading::given::knobs_of;

#[derive(Debug, Clone)]
pub(crate) struct Sides {
    pub(crate) side: Side,
    pub(crate) in_force: Values,
    /// The same under A and B.
    values: [Values; 2],
    /// Parameters that this machine does not tell, taken at its kernel's defaults.
    pub(crate) assumed: Vec<&'static str>,
    pub(crate) version: Version,
    pub(crate) arch: Arch,
    pub(crate) scopes: Scopes,
    /// The command starts the measured VMs under the ceiling that it is passed. Nothing of the machine is set.
    pub(crate) starts_vms: bool,
}

impl Sides {
    /// Fails where that side cannot be measured, or where a setting cannot be put in force.
    pub(crate) fn read(wanted: &ProofRequest, root: &Root) -> Result<Self, Failure> {
        check(wanted, root)?;
        let name = rustix::system::uname();
        let version: Version = name.release().to_string_lossy().parse()?;
        let machine = name.machine().to_string_lossy();
        let arch = Arch::of_machine(&machine).unwrap_or(Arch::X86);
        let settings = &wanted.pair.settings;
        let mut sides = Self {
            side: wanted.pair.side,
            in_force: Values::default(),
            values: [Values::default(); 2],
            assumed: Vec::new(),
            version,
            arch,
            scopes: Scopes::default(),
            starts_vms: takes_ceiling(&wanted.given.command),
        };
        if sides.side == Side::Guest {
            let [in_force, a, b] = guest::read(settings, version, root)?.map(Values::from);
            (sides.in_force, sides.values) = (in_force, [a, b]);
            return Ok(sides);
        }
        let told = params::read(root, clock::monotonic_ns())?;
        let (in_force, assumed) = knobs_of(&told, version, arch);
        let defaults = Knobs::defaults(version, arch);
        let resolve = |it: &GivenSetting| it.resolve(in_force, defaults).into();
        (sides.in_force, sides.assumed) = (in_force.into(), assumed);
        sides.values = settings.each_ref().map(resolve);
        if let Some(plan) = &wanted.plan {
            let ceilings_ns = [false, true].map(|is_b| sides.ceiling_ns(is_b));
            sides.scopes = Scopes::of(plan, root, ceilings_ns)?;
        }
        if sides.starts_vms {
            sides.are_ceilings_alone(in_force, settings)?;
        }
        Ok(sides)
    }

    fn are_ceilings_alone(
        &self,
        in_force: Knobs,
        settings: &[GivenSetting; 2],
    ) -> Result<(), Failure> {
        for (is_b, name, setting) in [(false, "--a", &settings[0]), (true, "--b", &settings[1])] {
            let with_ceiling = Knobs {
                halt_poll_ns: self.ceiling_ns(is_b),
                ..in_force
            };
            if *self.values(is_b) == with_ceiling.into() {
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

    pub(crate) fn values(&self, is_b: bool) -> &Values {
        &self.values[usize::from(is_b)]
    }

    pub(crate) fn ceiling_ns(&self, is_b: bool) -> u32 {
        let ceiling = match self.side {
            Side::Host => Parameter::HaltPollNs,
            Side::Guest => Parameter::GuestHaltPollNs,
        };
        self.values(is_b).get(ceiling).unwrap_or(0)
    }

    pub(crate) fn are_set(&self) -> bool {
        let differ = self.values != [self.in_force; 2] || !self.scopes.is_empty();
        differ && !self.starts_vms
    }

    /// Whether the settings are put in force, by the command or through parameters: a halt under another ceiling than the
    /// setting's then says that it was not.
    pub(crate) fn are_put_in_force(&self) -> bool {
        self.starts_vms || self.are_set()
    }

    pub(crate) fn policy(&self, is_b: bool) -> Result<Spec, Failure> {
        Ok(match self.side {
            Side::Host => "kvm".parse()?,
            Side::Guest => policy_of_guest(&(*self.values(is_b)).into())?,
        })
    }

    pub(crate) fn recorded(&self, is_b: bool) -> Knobs {
        if self.starts_vms {
            self.in_force.into()
        } else {
            (*self.values(is_b)).into()
        }
    }

    /// A host's parameters and the ceiling, in nanoseconds, under which a replay plays the vCPU of a halt for
    /// another setting than the one it was recorded under; `given` is what that gives its VM.
    pub(crate) fn replayed(&self, is_b: bool, halt: &Halt, given: Option<u32>) -> (Knobs, u32) {
        let own = match halt.ceiling_source {
            CeilingSource::Cap | CeilingSource::Snapshot => halt.ceiling_ns,
            CeilingSource::Param | CeilingSource::Unknown => None,
        };
        // A ceiling of the VM's own stays what it is, unless the command gives it.
        let own = own.filter(|_| !self.starts_vms);
        let ceiling_ns = given.or(own).unwrap_or_else(|| self.ceiling_ns(is_b));
        (self.recorded(is_b), ceiling_ns)
    }
}

fn check(wanted: &ProofRequest, root: &Root) -> Result<(), Failure> {
    match wanted.pair.side {
        Side::Guest => guest::check(wanted),
        Side::Host if params::kvm_is_loaded(root) => Ok(()),
        Side::Host => {
            let error = anyhow!("measure halts: KVM is not loaded on this host");
            Err(Failure::new(Exit::Unsupported, error).hint(
                "load it (modprobe kvm_intel or kvm_amd), or measure where the VMs run; in a guest, give \
                 guest_halt_poll_ns=TIME, or --guest",
            ))
        }
    }
}

#[cfg(test)]
mod test;
