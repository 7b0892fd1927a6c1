//! Settings of a guest's governor haltpoll, and the texts that name them: the names of the module's files with their
//! values, `guest_halt_poll_ns=750us,guest_halt_poll_grow=4`.

use std::fmt;
use std::str::FromStr;

use super::{SettingError, WantedSetting};
use crate::kvm::guest::Params;
use crate::policy::{Spec, SpecError};
use crate::units::Nanos;
use crate::verify::guest::Parameter;

/// A setting of the governor. What is not given stays as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedParams {
    text: String,
    given: Vec<(Parameter, u32)>,
}

impl WantedParams {
    /// Whether a text names parameters of the governor.
    pub(super) fn is_meant(text: &str) -> bool {
        text.trim().starts_with("guest_")
    }

    /// What a setting comes to that says nothing of a side: `current` or `off`.
    pub(super) fn of_either(setting: &WantedSetting) -> Option<Self> {
        let given = match setting.text.as_str() {
            "current" | "in-force" => Vec::new(),
            "off" => vec![(Parameter::HaltPollNs, 0)],
            _ => return None,
        };
        Some(Self {
            text: setting.text.clone(),
            given,
        })
    }

    /// All five parameters, where `in_force` are those at the beginning.
    pub fn resolve(&self, in_force: Params) -> Params {
        let mut params = in_force;
        for (parameter, value) in &self.given {
            parameter.put(&mut params, *value);
        }
        params
    }
}

impl FromStr for WantedParams {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let mut given: Vec<(Parameter, u32)> = Vec::new();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (name.trim(), value.trim());
            let mut all = Parameter::ALL.into_iter();
            let parameter = all.find(|parameter| parameter.as_str() == name);
            let Some(parameter) = parameter else {
                let name = name.to_owned();
                return Err(SettingError::NoParameter { name });
            };
            if given.iter().any(|(other, _)| *other == parameter) {
                return Err(SettingError::Twice {
                    name: parameter.as_str(),
                });
            }
            let value = read(parameter, value).ok_or_else(|| SettingError::NoValue {
                name: parameter.as_str(),
                value: value.to_owned(),
                expected: expected(parameter),
            })?;
            given.push((parameter, value));
        }
        Ok(Self {
            text: text.to_owned(),
            given,
        })
    }
}

impl fmt::Display for WantedParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// A value as its file takes it, or a time with a unit.
fn read(parameter: Parameter, text: &str) -> Option<u32> {
    match parameter {
        Parameter::AllowShrink => match text {
            "Y" | "y" | "1" => Some(1),
            "N" | "n" | "0" => Some(0),
            _ => None,
        },
        Parameter::HaltPollNs | Parameter::GrowStart => {
            let plain = text.parse::<u64>().ok();
            let Nanos(ns) = plain.map(Nanos).or_else(|| text.parse().ok())?;
            u32::try_from(ns).ok()
        }
        Parameter::Grow | Parameter::Shrink => text.parse().ok(),
    }
}

fn expected(parameter: Parameter) -> &'static str {
    match parameter {
        Parameter::AllowShrink => "Y or N",
        Parameter::HaltPollNs | Parameter::GrowStart => {
            "nanoseconds (80000) or a time (80us), 4294967295 ns at most"
        }
        Parameter::Grow | Parameter::Shrink => "a whole number, 4294967295 at most",
    }
}

/// The policy that plays the governor under these parameters.
///
/// # Errors
/// None: what is written here is what the policy reads.
pub fn policy(params: &Params) -> Result<Spec, SpecError> {
    let argument = |parameter: Parameter| {
        let unit = match parameter {
            Parameter::HaltPollNs | Parameter::GrowStart => "ns",
            _ => "",
        };
        format!("{}={}{unit}", parameter.key(), parameter.written(params))
    };
    let all = Parameter::ALL.map(argument).join(",");
    format!("guest-haltpoll:{all}").parse()
}
