//! Values of both settings on this machine: on a host KVM's four parameters, in a guest the five of its governor.
//!
//! [`guest`] has what holds of a guest alone.

pub(crate) mod guest;

use anyhow::anyhow;
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::policy::Spec;
use haltwise_core::prove::setting::{GivenSetting, policy_of_guest};
use haltwise_core::recording::Side;
use haltwise_host::root::Root;
use haltwise_host::{clock, params};

use super::ProofRequest;
use super::scopes::Scopes;
use crate::exit::{Exit, Failure};
use crate::reading::knobs::knobs_of;

#[derive(Debug, Clone)]
pub(crate) struct Sides {
    pub(crate) side: Side,
    /// Parameters of that side, in the order of [`Which`].
    pub(crate) values: [Values; 3],
    /// Parameters that this machine does not tell, taken at its kernel's defaults.
    pub(crate) assumed: Vec<&'static str>,
    pub(crate) version: Version,
    pub(crate) arch: Arch,
    pub(crate) scopes: Scopes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// At the beginning.
    InForce,
    A,
    B,
}

impl Sides {
    pub(crate) fn read(wanted: &ProofRequest, root: &Root) -> Result<Self, Failure> {
        let name = rustix::system::uname();
        let release = name.release().to_string_lossy();
        let version: Version = release.parse()?;
        let machine = name.machine().to_string_lossy();
        let arch = Arch::of_machine(&machine).unwrap_or(Arch::X86);
        let pair = &wanted.pair;
        if pair.side == Side::Guest {
            return Ok(Self {
                side: Side::Guest,
                values: guest::read(&pair.settings, version, root)?.map(Values::from),
                assumed: Vec::new(),
                version,
                arch,
                scopes: Scopes::default(),
            });
        }
        let told = params::read(root, clock::monotonic_ns())?;
        let (in_force, assumed) = knobs_of(&told, version, arch);
        let scopes = match &wanted.plan {
            Some(plan) => Scopes::of(plan, root)?,
            None => Scopes::default(),
        };
        let defaults = Knobs::defaults(version, arch);
        let resolve = |it: &GivenSetting| it.resolve(in_force, defaults);
        let [a, b] = pair.settings.each_ref().map(resolve);
        Ok(Self {
            side: Side::Host,
            values: [in_force, a, b].map(Values::from),
            assumed,
            version,
            arch,
            scopes,
        })
    }

    /// The parameters of that side under a setting.
    pub(crate) fn values(&self, which: Which) -> Values {
        self.values[which as usize]
    }

    /// A host's parameters under a setting; a guest has none of them.
    pub(crate) fn knobs(&self, which: Which) -> Option<Knobs> {
        let values = self.values(which);
        self.side.is_host().then(|| values.into())
    }

    pub(crate) fn ceiling_ns(&self, is_b: bool) -> u32 {
        let ceiling = match self.side {
            Side::Host => Parameter::HaltPollNs,
            Side::Guest => Parameter::GuestHaltPollNs,
        };
        self.values(Which::of(is_b)).get(ceiling).unwrap_or(0)
    }

    pub(crate) fn are_in_force(&self) -> bool {
        let [in_force, a, b] = self.values;
        self.scopes.is_empty() && a == in_force && b == in_force
    }

    pub(crate) fn policy(&self, is_b: bool) -> Result<Spec, Failure> {
        Ok(match self.side {
            Side::Host => "kvm".parse()?,
            Side::Guest => policy_of_guest(&self.values(Which::of(is_b)).into())?,
        })
    }
}

impl Which {
    pub(crate) fn of(is_b: bool) -> Self {
        if is_b { Self::B } else { Self::A }
    }
}

/// Refuses a machine on which that side cannot be measured.
pub(crate) fn check(wanted: &ProofRequest, root: &Root) -> Result<(), Failure> {
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
