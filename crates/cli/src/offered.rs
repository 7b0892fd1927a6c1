//! Options that take names: shells complete these names, and a function reads them.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};

/// The names that a shell offers, and what reads a value, which may be more than one of them.
#[derive(Debug, Clone)]
pub(crate) struct Offered<T> {
    pub(crate) names: &'static [&'static str],
    pub(crate) read: fn(&str) -> Result<T, String>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Offered<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        self.read.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}

/// A value of a type that reads its own names.
pub(crate) fn known<T: std::str::FromStr<Err: std::fmt::Display>>(
    names: &'static [&'static str],
) -> Offered<T> {
    let read = |text: &str| text.parse().map_err(|error: T::Err| error.to_string());
    Offered { names, read }
}
