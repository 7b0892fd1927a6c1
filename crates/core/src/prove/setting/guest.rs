//! Settings of a guest's governor haltpoll, and the texts that name them: the names of the module's files with their
//! values, `guest_halt_poll_ns=750us,guest_halt_poll_grow=4`.

use std::fmt;
use std::str::FromStr;

use super::{SettingError, WantedSetting};
use crate::kvm::guest::Params;
use crate::parameter::{Parameter, Values};
use crate::policy::{Spec, SpecError};

/// A setting of the governor. What is not given stays as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedParams {
    text: String,
    given: Values,
}

impl WantedParams {
    /// Whether a text names parameters of the governor.
    pub(super) fn is_meant(text: &str) -> bool {
        text.trim().starts_with("guest_")
    }

    /// What a setting comes to that says nothing of a side: `current` or `off`.
    pub(super) fn of_either(setting: &WantedSetting) -> Option<Self> {
        let given = match setting.text.as_str() {
            "current" | "in-force" => Values::default(),
            "off" => Values::default().with(Parameter::GuestHaltPollNs, 0),
            _ => return None,
        };
        Some(Self {
            text: setting.text.clone(),
            given,
        })
    }

    /// All five parameters, where `in_force` are those at the beginning.
    pub fn resolve(&self, in_force: Params) -> Params {
        self.given.over(in_force).into()
    }
}

impl FromStr for WantedParams {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
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

/// The policy that plays the governor under these parameters.
///
/// # Errors
/// None: what is written here is what the policy reads.
pub fn policy(params: &Params) -> Result<Spec, SpecError> {
    let argument = |(parameter, value): (Parameter, u32)| {
        let unit = if parameter.is_time() { "ns" } else { "" };
        format!("{}={}{unit}", parameter.key(), parameter.written(value))
    };
    let all: Vec<String> = Values::from(*params).iter().map(argument).collect();
    let all = all.join(",");
    format!("guest-haltpoll:{all}").parse()
}
