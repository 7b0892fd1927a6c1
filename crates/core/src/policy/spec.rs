//! The text that names a policy: `kvm:max=200us,grow=2,kernel=6.12`, `fixed:50us`, `off`.
//!
//! ```text
//! spec   = name [ ":" arg *( "," arg ) ]
//! arg    = key "=" value | value
//! ```
//!
//! A value without a key comes first, and only where the policy has one that needs no name. Times
//! carry units (`50us`; a bare 0 needs none), and factors are whole numbers.

use std::fmt;
use std::str::FromStr;

use super::{Entry, POLICIES, Policy, Setting};
use crate::kvm::Version;
use crate::units::Nanos;

/// Why a text names no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(String);

/// A hint at what was meant: all names, where nothing is near.
fn nearest(name: &str) -> String {
    let starts = |entry: &&Entry| {
        !name.is_empty() && (entry.name.starts_with(name) || name.starts_with(entry.name))
    };
    if let Some(entry) = POLICIES.iter().find(starts) {
        return format!(" (did you mean `{}`?)", entry.name);
    }
    let names: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
    format!(" (there are: {})", names.join(", "))
}

/// A policy by name and arguments: checked, and ready to be built for each vCPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    text: String,
    name: String,
    args: Vec<(String, String)>,
}

impl Spec {
    /// Makes the policy for one vCPU.
    pub fn build(&self, setting: &Setting) -> Result<Box<dyn Policy>, SpecError> {
        let entry = self.entry()?;
        let mut args = Args {
            spec: self,
            form: entry.form,
            used: vec![false; self.args.len()],
        };
        let policy = (entry.build)(&mut args, setting)?;
        args.finish()?;
        Ok(policy)
    }

    /// The policy's name, without arguments.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of an argument as it was given.
    pub fn arg(&self, key: &str) -> Option<&str> {
        let arg = self.args.iter().find(|(name, _)| name == key);
        arg.map(|(_, value)| value.as_str())
    }

    fn entry(&self) -> Result<&'static Entry, SpecError> {
        POLICIES
            .iter()
            .find(|entry| entry.name == self.name)
            .ok_or_else(|| {
                let (name, hint) = (&self.name, nearest(&self.name));
                SpecError(format!("there is no policy `{name}`{hint}"))
            })
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let pair = |arg: &str| {
            let (key, value) = arg.split_once('=').unwrap_or(("", arg));
            (key.trim().to_owned(), value.trim().to_owned())
        };
        let args = match rest.trim() {
            "" => Vec::new(),
            rest => rest.split(',').map(pair).collect(),
        };
        let spec = Self {
            text: text.trim().to_owned(),
            name: name.trim().to_owned(),
            args,
        };
        spec.entry()?;
        for (index, (key, _)) in spec.args.iter().enumerate() {
            if spec.args[..index].iter().any(|(other, _)| other == key) {
                let policy = &spec.name;
                return Err(SpecError(format!(
                    "policy `{policy}` is given `{key}` twice"
                )));
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The arguments of a spec, while a policy takes its own out of them.
#[derive(Debug)]
pub struct Args<'a> {
    spec: &'a Spec,
    form: &'static str,
    used: Vec<bool>,
}

impl<'a> Args<'a> {
    /// A time in nanoseconds. The empty key is the value without one.
    pub fn time(&mut self, key: &str) -> Result<Option<u64>, SpecError> {
        let value = self.take(key);
        let ns = value.map(|value| Nanos::of_parameter(value).map(|Nanos(ns)| ns));
        ns.transpose()
            .map_err(|reason| self.unreadable(key, &reason))
    }

    /// A time that KVM can hold: `unsigned int` nanoseconds, up to 4.29 s.
    pub fn kvm_time(&mut self, key: &str) -> Result<Option<u32>, SpecError> {
        let ns = self.time(key)?;
        ns.map(u32::try_from).transpose().map_err(|_| {
            self.refuse(
                key,
                "a time that KVM can hold (32 bits of nanoseconds, up to 4.29 s)",
            )
        })
    }

    /// A whole number that KVM can hold: `unsigned int`.
    pub fn whole(&mut self, key: &str) -> Result<Option<u32>, SpecError> {
        let number = self.take(key).map(str::parse).transpose();
        number.map_err(|_| self.refuse(key, "a whole number of 32 bits"))
    }

    pub fn kernel(&mut self, key: &str) -> Result<Option<Version>, SpecError> {
        let version = self.take(key).map(str::parse).transpose();
        version.map_err(|reason| self.unreadable(key, &reason))
    }

    /// A word, by a table of those there are.
    pub fn word<T: Copy>(
        &mut self,
        key: &str,
        words: &[(&str, T)],
        expected: &str,
    ) -> Result<Option<T>, SpecError> {
        let of = |value: &str| words.iter().find(|(word, _)| *word == value);
        match self.take(key).map(of) {
            None => Ok(None),
            Some(Some((_, meaning))) => Ok(Some(*meaning)),
            Some(None) => Err(self.refuse(key, expected)),
        }
    }

    fn unreadable(&self, key: &str, reason: &impl fmt::Display) -> SpecError {
        let key = match key {
            "" => String::new(),
            key => format!(", `{key}`"),
        };
        SpecError(format!("policy `{}`{key}: {reason}", self.spec.name))
    }

    /// The error that something is missing.
    pub fn missing(&self, what: &str) -> SpecError {
        let (policy, form) = (&self.spec.name, self.form_text());
        SpecError(format!("policy `{policy}` needs {what}: {form}"))
    }

    /// The error that a value was given which is not `expected`.
    pub fn refuse(&self, key: &str, expected: &str) -> SpecError {
        let (policy, value) = (&self.spec.name, self.spec.arg(key).unwrap_or_default());
        SpecError(format!(
            "policy `{policy}`: `{key}={value}` is not {expected}"
        ))
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let index = self.spec.args.iter().position(|(name, _)| name == key)?;
        self.used[index] = true;
        Some(&self.spec.args[index].1)
    }

    fn form_text(&self) -> String {
        match self.form {
            "" => "it takes no arguments".to_owned(),
            form => format!("it is written {}:{form}", self.spec.name),
        }
    }

    fn finish(&self) -> Result<(), SpecError> {
        let Some(unknown) = self.used.iter().position(|used| !used) else {
            return Ok(());
        };
        let (key, value) = &self.spec.args[unknown];
        let key = if key.is_empty() { value } else { key };
        let (policy, form) = (&self.spec.name, self.form_text());
        let text = format!("policy `{policy}` takes no `{key}`: {form}");
        Err(SpecError(text))
    }
}

#[cfg(test)]
mod test;
