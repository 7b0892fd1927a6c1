//! Which settings a kernel can be put under, and the texts that name them.
//!
//! The texts are those of policies ([`crate::policy::spec`]). Of all policies a kernel can only be put
//! under its own rule: `kvm` with parameters, or `off`, which is that rule under a ceiling of 0. `current`
//! and `in-force` name what is in force when the experiment begins. A setting of a guest's governor haltpoll is the names
//! of the module's files with their values: `guest_halt_poll_ns=750us,guest_halt_poll_grow=4`. `off` and `current` say
//! nothing of the side, and follow the other setting.

use std::fmt;
use std::str::FromStr;

use crate::kvm::guest::Params;
use crate::kvm::{Arch, Version};
use crate::parameter::{Parameter, ValueError, Values};
use crate::policy::{self, Spec, SpecError};
use crate::recording::Side;

/// A setting as it was given. A parameter that is not given stays as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenSetting {
    text: String,
    /// `None` of `off` and `current`.
    side: Option<Side>,
    /// `off` has the ceilings of both sides: [`GivenSetting::resolve`] keeps that of the measured side.
    given: Values,
    /// A parameter that is not given is not as in force, but as the kernel has it by itself.
    defaults: bool,
}

/// Why a text names no setting that a kernel can be put under.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(
        "`{policy}` cannot be put in force: a kernel has only its own algorithm. Give `off`, \
         `current`, `kvm:max=TIME,grow=N,grow_start=TIME,shrink=N`, or in a guest `guest_halt_poll_ns=TIME` and \
         the other parameters of haltpoll"
    )]
    NotKvms { policy: String },
    #[error("`kernel=` cannot be put in force: the running kernel's algorithm is measured")]
    Kernel,
    #[error(
        "`cap=` is not set here: give `max=`, and write {{halt_poll_ns}} in the command that starts the \
         VMs where it takes the VM's ceiling"
    )]
    Cap,
    #[error(
        "`{name}` is not a parameter of the governor haltpoll; these are guest_halt_poll_ns, _grow, _grow_start, \
         _shrink and _allow_shrink, each as NAME=VALUE, with commas between them"
    )]
    NoParameter { name: String },
    #[error("{name} is given twice")]
    Twice { name: &'static str },
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error(
        "`{host}` is a setting of a host and `{guest}` one of a guest: both must be of the same machine"
    )]
    Mixed { host: String, guest: String },
    #[error("`{host}` is a setting of a host, and a guest is measured")]
    NotGuests { host: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPair {
    pub side: Side,
    pub settings: [GivenSetting; 2],
}

impl WantedPair {
    /// The parameters that are named decide whose settings these are; where none are, `in_guest` does.
    ///
    /// # Errors
    /// If one is of a host and the other of a guest, or one is of a host and `in_guest` says a guest.
    pub fn of(settings: [GivenSetting; 2], in_guest: bool) -> Result<Self, SettingError> {
        let of = |side| {
            let found = settings.iter().find(|it| it.side == Some(side));
            found.map(ToString::to_string)
        };
        let side = match (of(Side::Host), of(Side::Guest)) {
            (Some(host), Some(guest)) => return Err(SettingError::Mixed { host, guest }),
            (Some(host), None) if in_guest => return Err(SettingError::NotGuests { host }),
            (None, guest) if guest.is_some() || in_guest => Side::Guest,
            _ => Side::Host,
        };
        Ok(Self { side, settings })
    }
}

impl FromStr for GivenSetting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let mut wanted = Self {
            text: text.to_owned(),
            side: None,
            given: Values::default(),
            defaults: false,
        };
        if matches!(text, "current" | "in-force") {
            return Ok(wanted);
        }
        if text.starts_with("guest_") {
            wanted.side = Some(Side::Guest);
            wanted.given = of_governor(text)?;
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
            let ceilings = [Parameter::HaltPollNs, Parameter::GuestHaltPollNs];
            wanted.given = ceilings.map(|it| (it, 0)).into_iter().collect();
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
        wanted.side = Some(Side::Host);
        wanted.defaults = spec.arg("knobs").is_some();
        Ok(wanted)
    }
}

fn of_governor(text: &str) -> Result<Values, SettingError> {
    let mut given = Values::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let named: Option<Parameter> = name.parse().ok();
        let Some(parameter) = named.filter(|it| it.is_of_guest()) else {
            let name = name.trim().to_owned();
            return Err(SettingError::NoParameter { name });
        };
        if given.get(parameter).is_some() {
            let name = parameter.name();
            return Err(SettingError::Twice { name });
        }
        given.set(parameter, Some(parameter.value(value)?));
    }
    Ok(given)
}

impl fmt::Display for GivenSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl GivenSetting {
    /// All parameters of a side, and no others, where `in_force` are those at the beginning. `defaults` are those of the
    /// kernel, for `knobs=default`.
    pub fn resolve<T: Into<Values> + From<Values>>(&self, in_force: T, defaults: T) -> T {
        let base = if self.defaults { defaults } else { in_force };
        self.given.over(base).into()
    }
}

/// The policy that plays the governor under these parameters.
///
/// # Errors
/// None: what is written here is what the policy reads.
pub fn policy_of_guest(params: &Params) -> Result<Spec, SpecError> {
    let argument = |(parameter, value): (Parameter, u32)| {
        let unit = if parameter.is_time() { "ns" } else { "" };
        format!("{}={}{unit}", parameter.key(), parameter.written(value))
    };
    let all: Vec<String> = Values::from(*params).iter().map(argument).collect();
    let all = all.join(",");
    format!("guest-haltpoll:{all}").parse()
}
