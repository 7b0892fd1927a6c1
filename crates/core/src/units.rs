//! Nanoseconds, and durations as people write them.
//!
//! Columns and struct fields hold plain `u64` nanoseconds and say so in their names (`halt_ns`).
//! The types here are for values that cross a border: a command line, a sysfs file, a screen.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A length of time in nanoseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A polling time as KVM keeps it: `unsigned int` nanoseconds, arithmetic modulo 2^32.
///
/// Source: `struct kvm_vcpu.halt_poll_ns`, `struct kvm.max_halt_poll_ns` and the module parameters
/// in `virt/kvm/kvm_main.c` are all `unsigned int`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct HaltPollNs(pub u32);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationParseError {
    #[error("`{0}` is not a duration: it does not start with a number (try 20us, 1.5ms, 10s)")]
    NoNumber(String),
    #[error("`{text}` has the unknown unit `{unit}` (ns, us, ms, s, m, h)")]
    UnknownUnit { text: String, unit: String },
    #[error("`{0}` has no unit (ns, us, ms, s, m, h)")]
    NoUnit(String),
    #[error("`{0}` does not fit in whole nanoseconds of 64 bits")]
    OutOfRange(String),
}

impl FromStr for Nanos {
    type Err = DurationParseError;

    /// Reads `20us`, `1.5ms`, `0`, `10s`, `2m`, `1h`. A bare `0` needs no unit.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text, None)
    }
}

impl Nanos {
    /// Reads the value of a KVM parameter: as KVM's files, a number without a unit is nanoseconds.
    ///
    /// # Errors
    ///
    /// If `text` is not a duration.
    pub fn of_parameter(text: &str) -> Result<Self, DurationParseError> {
        Self::read(text, Some(1))
    }

    /// Reads the length of a measurement: as for `sleep`, a number without a unit is seconds.
    ///
    /// # Errors
    ///
    /// If `text` is not a duration.
    pub fn of_seconds(text: &str) -> Result<Self, DurationParseError> {
        Self::read(text, Some(1_000_000_000))
    }

    /// Reads a duration; `bare` is the unit of a number without one.
    fn read(text: &str, bare: Option<u64>) -> Result<Self, DurationParseError> {
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(DurationParseError::NoNumber(text.to_owned()));
        }
        let out_of_range = || DurationParseError::OutOfRange(text.to_owned());
        let per_unit: u64 = match unit.trim() {
            "" if number == "0" => 1,
            "" => bare.ok_or_else(|| DurationParseError::NoUnit(text.to_owned()))?,
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            other => {
                return Err(DurationParseError::UnknownUnit {
                    text: text.to_owned(),
                    unit: other.to_owned(),
                });
            }
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.ends_with('.') || fraction.contains('.') {
            return Err(DurationParseError::NoNumber(text.to_owned()));
        }
        let mut total = whole
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(per_unit))
            .ok_or_else(out_of_range)?;
        let mut place = per_unit;
        for digit in fraction.bytes() {
            if !place.is_multiple_of(10) && digit != b'0' {
                return Err(out_of_range());
            }
            place /= 10;
            total = total
                .checked_add(place.saturating_mul(u64::from(digit - b'0')))
                .ok_or_else(out_of_range)?;
        }
        Ok(Self(total))
    }
}

impl Nanos {
    /// The shortest text that reads back as exactly this: `20us`, `1500ns`, `0ns`.
    pub fn to_exact(self) -> String {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        let whole = |(per_unit, _): &(u64, _)| self.0 > 0 && self.0.is_multiple_of(*per_unit);
        let (per_unit, unit) = units.into_iter().find(whole).unwrap_or((1, "ns"));
        format!("{}{unit}", self.0 / per_unit)
    }
}

impl fmt::Display for Nanos {
    /// Three significant digits in the unit that suits the size: `740 ns`, `5.71 us`, `30.6 us`, `1.20 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        let (value, unit) = match ns {
            0..1_000 => return f.pad(&format!("{ns} ns")),
            1_000..999_500 => (ns as f64 / 1e3, "us"),
            999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
            _ => (ns as f64 / 1e9, "s"),
        };
        let decimals = if value < 9.995 {
            2
        } else {
            usize::from(value < 99.95)
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

impl From<HaltPollNs> for Nanos {
    fn from(value: HaltPollNs) -> Self {
        Self(u64::from(value.0))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, ns) in [
            ("0", 0),
            ("1ns", 1),
            ("20us", 20_000),
            ("20 us", 20_000),
            ("1.5ms", 1_500_000),
            ("0.001us", 1),
            ("10s", 10_000_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(text.parse::<Nanos>(), Ok(Nanos(ns)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused_with_the_reason() {
        use DurationParseError as E;
        let (text, unit) = ("3days".into(), "days".into());
        let days = E::UnknownUnit { text, unit };
        for (text, error) in [
            ("", E::NoNumber(String::new())),
            ("-1", E::NoNumber("-1".into())),
            ("us", E::NoNumber("us".into())),
            (".5us", E::NoNumber(".5us".into())),
            ("5.us", E::NoNumber("5.us".into())),
            ("1.2.3us", E::NoNumber("1.2.3us".into())),
            ("20", E::NoUnit("20".into())),
            ("3days", days),
            ("0.5ns", E::OutOfRange("0.5ns".into())),
            ("99999999999999h", E::OutOfRange("99999999999999h".into())),
        ] {
            assert_eq!(text.parse::<Nanos>(), Err(error), "{text}");
        }
    }

    #[test]
    fn exact_texts_are_short_and_lose_nothing() {
        for (ns, text) in [
            (0, "0ns"),
            (1_500, "1500ns"),
            (20_000, "20us"),
            (2_000_000, "2ms"),
            (60_000_000_000, "60s"),
        ] {
            assert_eq!(Nanos(ns).to_exact(), text);
            assert_eq!(text.parse::<Nanos>(), Ok(Nanos(ns)));
        }
    }

    #[test]
    fn display_keeps_three_digits_and_never_prints_1000_of_a_unit() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (5_714, "5.71 us"),
            (9_996, "10.0 us"),
            (30_600, "30.6 us"),
            (99_960, "100 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (1_200_000, "1.20 ms"),
            (999_499_999, "999 ms"),
            (999_500_000, "1.00 s"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }
}
