//! Which settings a kernel can be put under, and the texts that name them.
//!
//! The texts are those of policies ([`crate::policy::spec`]). Of all policies a kernel can only be put
//! under its own rule: `kvm` with parameters, or `off`, which is that rule under a ceiling of 0. `current`
//! and `in-force` name what is in force when the experiment begins. Parameters of a guest's governor are named as their
//! files ([`guest`]); `off` and `current` say nothing of the side, and follow the other setting.

pub mod guest;

use std::fmt;
use std::str::FromStr;

use self::guest::WantedParams;
use crate::kvm::{Arch, Knobs, Version};
use crate::parameter::{Parameter, ValueError, Values};
use crate::policy::{self, Spec, SpecError};

/// A setting that a kernel can be put under. What is `None` stays as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedSetting {
    text: String,
    given: Values,
    /// What is not given is not as in force, but as the kernel has it by itself.
    defaults: bool,
}

/// Why a text names no setting that a kernel can be put under.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// It is no policy at all.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A policy that no kernel has.
    #[error(
        "`{policy}` cannot be put in force: a kernel has only its own algorithm. Give `off`, \
         `current`, `kvm:max=TIME,grow=N,grow_start=TIME,shrink=N`, or in a guest `guest_halt_poll_ns=TIME` and \
         the other parameters of haltpoll"
    )]
    NotKvms { policy: String },
    /// A kernel of another version.
    #[error("`kernel=` cannot be put in force: the running kernel's algorithm is measured")]
    Kernel,
    /// A ceiling of the VM's own.
    #[error(
        "`cap=` is not set here: give `max=`, and write {{halt_poll_ns}} in the command that starts the \
         VMs where it takes the VM's ceiling"
    )]
    Cap,
    /// The governor has no such parameter.
    #[error(
        "`{name}` is not a parameter of the governor haltpoll; these are guest_halt_poll_ns, _grow, _grow_start, \
         _shrink and _allow_shrink, each as NAME=VALUE, with commas between them"
    )]
    NoParameter {
        /// What was given.
        name: String,
    },
    /// The same parameter again.
    #[error("{name} is given twice")]
    Twice { name: &'static str },
    #[error(transparent)]
    Value(#[from] ValueError),
    /// One of a host and one of a guest.
    #[error(
        "`{host}` is a setting of a host and `{guest}` one of a guest: both must be of the same machine"
    )]
    Mixed {
        host: String,
        /// The other.
        guest: String,
    },
    /// A host's, where a guest is measured.
    #[error("`{host}` is a setting of a host, and a guest is measured")]
    NotGuests { host: String },
}

/// A setting as it was given: of KVM, or of a guest's governor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenSetting {
    /// Of KVM, or one that says nothing of a side.
    Kvm(WantedSetting),
    /// Of the governor.
    Guest(WantedParams),
}

impl FromStr for GivenSetting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if WantedParams::is_meant(text) {
            return text.parse().map(Self::Guest);
        }
        text.parse().map(Self::Kvm)
    }
}

/// Two settings of one side, A and B.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedPair {
    Host([WantedSetting; 2]),
    Guest([WantedParams; 2]),
}

impl WantedPair {
    /// The parameters that are named decide whose settings these are; where none are, `in_guest` does.
    ///
    /// # Errors
    /// If one is of a host and the other of a guest, or one is of a host and `in_guest` says a guest.
    pub fn of(pair: [GivenSetting; 2], in_guest: bool) -> Result<Self, SettingError> {
        use GivenSetting::{Guest, Kvm};
        let of_guest = |it: &WantedSetting| WantedParams::of_either(it);
        match pair {
            [Guest(a), Guest(b)] => Ok(Self::Guest([a, b])),
            [Guest(a), Kvm(b)] => match of_guest(&b) {
                Some(b) => Ok(Self::Guest([a, b])),
                None => Err(mixed(&b, &a)),
            },
            [Kvm(a), Guest(b)] => match of_guest(&a) {
                Some(a) => Ok(Self::Guest([a, b])),
                None => Err(mixed(&a, &b)),
            },
            [Kvm(a), Kvm(b)] if in_guest => {
                let of = |it: WantedSetting| {
                    let host = it.text.clone();
                    of_guest(&it).ok_or(SettingError::NotGuests { host })
                };
                Ok(Self::Guest([of(a)?, of(b)?]))
            }
            [Kvm(a), Kvm(b)] => Ok(Self::Host([a, b])),
        }
    }
}

fn mixed(host: &WantedSetting, guest: &WantedParams) -> SettingError {
    SettingError::Mixed {
        host: host.to_string(),
        guest: guest.to_string(),
    }
}

impl fmt::Display for GivenSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kvm(setting) => setting.fmt(f),
            Self::Guest(params) => params.fmt(f),
        }
    }
}

impl FromStr for WantedSetting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let mut wanted = Self {
            text: text.to_owned(),
            given: Values::default(),
            defaults: false,
        };
        if matches!(text, "current" | "in-force") {
            return Ok(wanted);
        }
        let spec: Spec = text.parse()?;
        if !matches!(spec.name(), "off" | "kvm") {
            let policy = spec.name().to_owned();
            return Err(SettingError::NotKvms { policy });
        }
        // Whatever the machine, an argument is right or wrong.
        spec.build(&policy::Setting::upstream(
            Version::new(6, 12),
            Arch::X86,
            0,
        ))?;
        if spec.name() == "off" {
            wanted.given.set(Parameter::HaltPollNs, Some(0));
            return Ok(wanted);
        }
        if spec.arg("kernel").is_some() {
            return Err(SettingError::Kernel);
        }
        if spec.arg("cap").is_some() {
            return Err(SettingError::Cap);
        }
        for parameter in Parameter::HOST {
            if let Some(text) = spec.arg(parameter.key()) {
                let value = parameter.value(text)?;
                wanted.given.set(parameter, Some(value));
            }
        }
        wanted.defaults = spec.arg("knobs").is_some();
        Ok(wanted)
    }
}

impl fmt::Display for WantedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl WantedSetting {
    /// All parameters, where `in_force` are those at the beginning.
    pub fn resolve(&self, in_force: Knobs, version: Version, arch: Arch) -> Knobs {
        let base = if self.defaults {
            Knobs::defaults(version, arch)
        } else {
            in_force
        };
        self.given.over(base).into()
    }
}
