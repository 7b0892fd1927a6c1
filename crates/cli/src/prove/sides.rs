//! What both settings come to on this machine: on a host KVM's four parameters, in a guest the five of its governor.
//!
//! [`guest`] has what holds of a guest alone.

pub(crate) mod guest;

use anyhow::anyhow;
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::parameter::Values;
use haltwise_core::policy::Spec;
use haltwise_core::prove::setting::{WantedPair, WantedSetting, guest as wanted};
use haltwise_core::recording::Side;
use haltwise_host::root::Root;
use haltwise_host::{clock, params};

use self::guest::Governor;
use super::ProofRequest;
use super::scopes::Scopes;
use crate::exit::{Exit, Failure};
use crate::reading::knobs::knobs_of;

/// What was in force at the beginning, and what the two settings come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Three<T> {
    pub(crate) in_force: T,
    pub(crate) a: T,
    pub(crate) b: T,
}

impl<T: PartialEq> Three<T> {
    fn of(&self, which: Which) -> &T {
        match which {
            Which::InForce => &self.in_force,
            Which::A => &self.a,
            Which::B => &self.b,
        }
    }

    fn is_in_force(&self) -> bool {
        self.a == self.in_force && self.b == self.in_force
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Of {
    /// KVM's, which hold for the VMs of this host.
    Host(Three<Knobs>),
    Guest(Governor),
}

#[derive(Debug, Clone)]
pub(crate) struct Sides {
    pub(crate) of: Of,
    /// Parameters that this machine does not tell, taken at its kernel's defaults.
    pub(crate) assumed: Vec<&'static str>,
    pub(crate) version: Version,
    pub(crate) arch: Arch,
    pub(crate) scopes: Scopes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
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
        let pair = match &wanted.pair {
            WantedPair::Host(pair) => pair,
            WantedPair::Guest(pair) => {
                return Ok(Self {
                    of: Of::Guest(Governor::read(pair, version, root)?),
                    assumed: Vec::new(),
                    version,
                    arch,
                    scopes: Scopes::default(),
                });
            }
        };
        let told = params::read(root, clock::monotonic_ns())?;
        let (in_force, assumed) = knobs_of(&told, version, arch);
        let scopes = match &wanted.plan {
            Some(plan) => Scopes::of(plan, root)?,
            None => Scopes::default(),
        };
        let resolve = |wanted: &WantedSetting| wanted.resolve(in_force, version, arch);
        Ok(Self {
            of: Of::Host(Three {
                in_force,
                a: resolve(&pair[0]),
                b: resolve(&pair[1]),
            }),
            assumed,
            version,
            arch,
            scopes,
        })
    }

    pub(crate) fn side(&self) -> Side {
        match &self.of {
            Of::Host(_) => Side::Host,
            Of::Guest(_) => Side::Guest,
        }
    }

    /// A host's parameters under a setting; a guest has none of them.
    pub(crate) fn knobs(&self, which: Which) -> Option<&Knobs> {
        match &self.of {
            Of::Host(of) => Some(of.of(which)),
            Of::Guest(_) => None,
        }
    }

    /// The ceiling of a setting, in nanoseconds.
    pub(crate) fn ceiling_ns(&self, is_b: bool) -> u32 {
        match &self.of {
            Of::Host(of) => of.of(Which::of(is_b)).halt_poll_ns,
            Of::Guest(of) => of.params.of(Which::of(is_b)).guest_halt_poll_ns,
        }
    }

    pub(crate) fn are_in_force(&self) -> bool {
        self.scopes.is_empty()
            && match &self.of {
                Of::Host(of) => of.is_in_force(),
                Of::Guest(of) => of.params.is_in_force(),
            }
    }

    /// The parameters of that side under a setting.
    pub(crate) fn values(&self, which: Which) -> Values {
        match &self.of {
            Of::Host(of) => (*of.of(which)).into(),
            Of::Guest(of) => (*of.params.of(which)).into(),
        }
    }

    pub(crate) fn policy(&self, is_b: bool) -> Result<Spec, Failure> {
        Ok(match &self.of {
            Of::Host(_) => "kvm".parse()?,
            Of::Guest(of) => wanted::policy(of.params.of(Which::of(is_b)))?,
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
    match &wanted.pair {
        WantedPair::Guest(_) => guest::check(wanted),
        WantedPair::Host(_) if params::kvm_is_loaded(root) => Ok(()),
        WantedPair::Host(_) => {
            let error = anyhow!("measure halts: KVM is not loaded on this host");
            Err(Failure::new(Exit::Unsupported, error).hint(
                "load it (modprobe kvm_intel or kvm_amd), or measure where the VMs run; in a guest, give \
                 guest_halt_poll_ns=TIME, or --guest",
            ))
        }
    }
}
