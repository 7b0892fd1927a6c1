//! Values of some of the parameters.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Parameter;
use crate::event::Knob;
use crate::kvm::Knobs;
use crate::kvm::guest::Params;
use crate::recording::Side;

/// Values of some of the parameters; a flag is 1 or 0. As JSON an object with the kernel's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Values([Option<u32>; Parameter::ALL.len()]);

impl Values {
    pub fn get(&self, parameter: Parameter) -> Option<u32> {
        self.0[parameter as usize]
    }

    pub fn set(&mut self, parameter: Parameter, value: Option<u32>) {
        self.0[parameter as usize] = value;
    }

    #[must_use]
    pub fn with(mut self, parameter: Parameter, value: u32) -> Self {
        self.set(parameter, Some(value));
        self
    }

    /// The first value of each among recorded settings.
    pub fn recorded(knobs: &[Knob]) -> Self {
        knobs.iter().rev().filter_map(Parameter::of).collect()
    }

    /// The values that there are, in the order in which they are written.
    pub fn iter(&self) -> impl Iterator<Item = (Parameter, u32)> + use<> {
        let all = Parameter::ALL.into_iter().zip(self.0);
        all.filter_map(|(parameter, value)| Some((parameter, value?)))
    }

    /// The same with the ceiling first, as people think of it.
    pub fn listed(&self) -> impl Iterator<Item = (Parameter, u32)> + use<> {
        let values = *self;
        let all = Parameter::HOST.into_iter().chain(Parameter::GUEST);
        all.filter_map(move |parameter| Some((parameter, values.get(parameter)?)))
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The values that `other` does not have.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        self.iter()
            .filter(|(parameter, value)| other.get(*parameter) != Some(*value))
            .collect()
    }

    /// Whether all of them are of that side.
    pub fn are_of(&self, side: Side) -> bool {
        self.iter()
            .all(|(it, _)| it.is_of_guest() != side.is_host())
    }

    /// These values; where one is missing, that of `others`.
    #[must_use]
    pub fn over(&self, others: impl Into<Self>) -> Self {
        let others = others.into();
        Self(std::array::from_fn(|nth| self.0[nth].or(others.0[nth])))
    }

    fn or_zero(&self, parameter: Parameter) -> u32 {
        self.get(parameter).unwrap_or(0)
    }
}

/// A parameter that is not among them is 0, as one that a kernel lacks.
impl From<Values> for Knobs {
    fn from(of: Values) -> Self {
        Self::of(Parameter::HOST.map(|it| of.or_zero(it)))
    }
}

/// A parameter that is not among them is 0.
impl From<Values> for Params {
    fn from(of: Values) -> Self {
        let [guest_halt_poll_ns, grow, grow_start, shrink, allow_shrink] =
            Parameter::GUEST.map(|it| of.or_zero(it));
        Self {
            guest_halt_poll_ns,
            grow,
            grow_start,
            shrink,
            allow_shrink: allow_shrink != 0,
        }
    }
}

impl From<Knobs> for Values {
    fn from(of: Knobs) -> Self {
        let values = [of.halt_poll_ns, of.grow, of.grow_start, of.shrink];
        Parameter::HOST.into_iter().zip(values).collect()
    }
}

impl From<Params> for Values {
    fn from(of: Params) -> Self {
        let shrinks = of.allow_shrink.into();
        let values = [
            of.guest_halt_poll_ns,
            of.grow,
            of.grow_start,
            of.shrink,
            shrinks,
        ];
        Parameter::GUEST.into_iter().zip(values).collect()
    }
}

impl FromIterator<(Parameter, u32)> for Values {
    fn from_iter<T: IntoIterator<Item = (Parameter, u32)>>(all: T) -> Self {
        let with = |values: Self, (parameter, value)| values.with(parameter, value);
        all.into_iter().fold(Self::default(), with)
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (parameter, value) in self.listed() {
            if parameter.is_flag() {
                map.serialize_entry(&parameter, &(value != 0))?;
            } else {
                map.serialize_entry(&parameter, &value)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Named;

        impl<'de> Visitor<'de> for Named {
            type Value = Values;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("parameters of halt polling by their names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
                let (mut values, mut seen) = (Values::default(), Vec::new());
                while let Some(name) = map.next_key::<String>()? {
                    let mut all = Parameter::ALL.into_iter();
                    let parameter = all
                        .find(|it| it.name() == name)
                        .ok_or_else(|| A::Error::unknown_field(&name, &Parameter::NAMES))?;
                    if seen.contains(&parameter) {
                        return Err(A::Error::duplicate_field(parameter.name()));
                    }
                    seen.push(parameter);
                    let value = if parameter.is_flag() {
                        map.next_value::<Option<bool>>()?.map(u32::from)
                    } else {
                        map.next_value()?
                    };
                    values.set(parameter, value);
                }
                Ok(values)
            }
        }

        deserializer.deserialize_map(Named)
    }
}
