//! The parameters that can be written, and the values that they take.
//!
//! Four are `unsigned int` of module `kvm` (`virt/kvm/kvm_main.c`): live, and for the whole host. Five are of the
//! guest's governor, module `haltpoll` (`drivers/cpuidle/governors/haltpoll.c`): four `unsigned int`, and
//! `guest_halt_poll_allow_shrink`, a `bool`, of which 1 and 0 are written as Y and N.

use std::fmt;
use std::str::FromStr;

use haltwise_core::kvm::guest::Params;
use haltwise_core::units::{DurationParseError, Nanos};
use serde::{Deserialize, Serialize};

/// One of KVM's four parameters of the polling window, or of the guest governor's five, under the name that the kernel
/// gives it.
///
/// The order is the one in which they are written: the ceiling last, so that no window grows by the
/// old factors under the new ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Parameter {
    /// `halt_poll_ns_grow`: the factor by which a window grows. Since 4.3, writable since 4.6.
    #[serde(rename = "halt_poll_ns_grow")]
    Grow,
    /// `halt_poll_ns_grow_start`: the first window above 0, in nanoseconds. Since 5.1.
    #[serde(rename = "halt_poll_ns_grow_start")]
    GrowStart,
    /// `halt_poll_ns_shrink`: the divisor by which a window shrinks, 0 for at once to 0. Since 4.3,
    /// writable since 4.6.
    #[serde(rename = "halt_poll_ns_shrink")]
    Shrink,
    /// `halt_poll_ns`: the ceiling, in nanoseconds, of every VM that has none of its own.
    #[serde(rename = "halt_poll_ns")]
    HaltPollNs,
    /// `guest_halt_poll_grow`: the factor by which a limit grows.
    #[serde(rename = "guest_halt_poll_grow")]
    GuestGrow,
    /// `guest_halt_poll_grow_start`: the first limit above 0, in nanoseconds.
    #[serde(rename = "guest_halt_poll_grow_start")]
    GuestGrowStart,
    /// `guest_halt_poll_shrink`: the divisor by which a limit shrinks, 0 for at once to 0.
    #[serde(rename = "guest_halt_poll_shrink")]
    GuestShrink,
    /// `guest_halt_poll_allow_shrink`: whether a limit shrinks, 1 or 0.
    #[serde(rename = "guest_halt_poll_allow_shrink")]
    GuestAllowShrink,
    /// `guest_halt_poll_ns`: the ceiling of the limit, in nanoseconds.
    #[serde(rename = "guest_halt_poll_ns")]
    GuestHaltPollNs,
}

/// Why a text is no value for a parameter, or names none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    #[error(
        "`{0}` is not a halt polling parameter; of KVM these are halt_poll_ns, halt_poll_ns_grow, \
         halt_poll_ns_grow_start and halt_poll_ns_shrink, and in a guest guest_halt_poll_ns, _grow, _grow_start, \
         _shrink and _allow_shrink"
    )]
    Name(String),
    /// Below 0.
    #[error(
        "{parameter} cannot be `{text}`: it is unsigned, so that nothing below 0 means off or \
         default; {zero}"
    )]
    Negative {
        parameter: Parameter,
        text: String,
        /// What 0 means there.
        zero: &'static str,
    },
    /// Above 2^32-1.
    #[error("{parameter} cannot be `{text}`: it is an unsigned int, 4294967295 at most")]
    Large { parameter: Parameter, text: String },
    /// A factor or divisor with a unit, or no number at all.
    #[error("{parameter} cannot be `{text}`: it is a {kind}, a whole number without a unit")]
    NoFactor {
        parameter: Parameter,
        text: String,
        kind: &'static str,
    },
    /// Neither yes nor no.
    #[error("{parameter} cannot be `{text}`: it is Y or N")]
    NoFlag { parameter: Parameter, text: String },
    #[error("{parameter} cannot be `{text}`; it takes nanoseconds (80000) or a time (80us)")]
    NoTime {
        parameter: Parameter,
        text: String,
        #[source]
        source: DurationParseError,
    },
}

impl Parameter {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 9] = [
        Self::Grow,
        Self::GrowStart,
        Self::Shrink,
        Self::HaltPollNs,
        Self::GuestGrow,
        Self::GuestGrowStart,
        Self::GuestShrink,
        Self::GuestAllowShrink,
        Self::GuestHaltPollNs,
    ];

    pub const KVM: [Self; 4] = [Self::Grow, Self::GrowStart, Self::Shrink, Self::HaltPollNs];

    pub const fn name(self) -> &'static str {
        match self {
            Self::HaltPollNs => "halt_poll_ns",
            Self::Grow => "halt_poll_ns_grow",
            Self::GrowStart => "halt_poll_ns_grow_start",
            Self::Shrink => "halt_poll_ns_shrink",
            Self::GuestHaltPollNs => "guest_halt_poll_ns",
            Self::GuestGrow => "guest_halt_poll_grow",
            Self::GuestGrowStart => "guest_halt_poll_grow_start",
            Self::GuestShrink => "guest_halt_poll_shrink",
            Self::GuestAllowShrink => "guest_halt_poll_allow_shrink",
        }
    }

    pub const fn module(self) -> &'static str {
        if self.is_of_guest() {
            "haltpoll"
        } else {
            "kvm"
        }
    }

    /// Whether it is one of the guest's governor.
    pub const fn is_of_guest(self) -> bool {
        matches!(
            self,
            Self::GuestGrow
                | Self::GuestGrowStart
                | Self::GuestShrink
                | Self::GuestAllowShrink
                | Self::GuestHaltPollNs
        )
    }

    /// Its file, below a [`crate::root::Root`].
    pub const fn path(self) -> &'static str {
        match self {
            Self::HaltPollNs => "sys/module/kvm/parameters/halt_poll_ns",
            Self::Grow => "sys/module/kvm/parameters/halt_poll_ns_grow",
            Self::GrowStart => "sys/module/kvm/parameters/halt_poll_ns_grow_start",
            Self::Shrink => "sys/module/kvm/parameters/halt_poll_ns_shrink",
            Self::GuestHaltPollNs => "sys/module/haltpoll/parameters/guest_halt_poll_ns",
            Self::GuestGrow => "sys/module/haltpoll/parameters/guest_halt_poll_grow",
            Self::GuestGrowStart => "sys/module/haltpoll/parameters/guest_halt_poll_grow_start",
            Self::GuestShrink => "sys/module/haltpoll/parameters/guest_halt_poll_shrink",
            Self::GuestAllowShrink => "sys/module/haltpoll/parameters/guest_halt_poll_allow_shrink",
        }
    }

    /// Whether it is a time in nanoseconds, and not a factor or divisor.
    pub const fn is_time(self) -> bool {
        matches!(
            self,
            Self::HaltPollNs | Self::GrowStart | Self::GuestHaltPollNs | Self::GuestGrowStart
        )
    }

    pub const fn is_flag(self) -> bool {
        matches!(self, Self::GuestAllowShrink)
    }

    /// Its value among those of a guest; `None` of KVM's.
    pub fn in_guest(self, params: &Params) -> Option<u32> {
        match self {
            Self::GuestHaltPollNs => Some(params.guest_halt_poll_ns),
            Self::GuestGrow => Some(params.grow),
            Self::GuestGrowStart => Some(params.grow_start),
            Self::GuestShrink => Some(params.shrink),
            Self::GuestAllowShrink => Some(u32::from(params.allow_shrink)),
            Self::Grow | Self::GrowStart | Self::Shrink | Self::HaltPollNs => None,
        }
    }

    /// The first kernel that lets it be written while it runs.
    pub const fn since(self) -> &'static str {
        match self {
            Self::HaltPollNs => "4.0",
            Self::Grow | Self::Shrink => "4.6",
            Self::GrowStart => "5.1",
            Self::GuestGrow
            | Self::GuestGrowStart
            | Self::GuestShrink
            | Self::GuestAllowShrink
            | Self::GuestHaltPollNs => "5.4",
        }
    }

    /// Reads a value as people write it: `80us`, `80000`, `0`; factors without a unit.
    pub fn value(self, text: &str) -> Result<u32, ValueError> {
        let text = text.trim();
        let own = || text.to_owned();
        if self.is_flag() {
            return match text {
                "Y" | "y" | "1" => Ok(1),
                "N" | "n" | "0" => Ok(0),
                _ => Err(ValueError::NoFlag {
                    parameter: self,
                    text: own(),
                }),
            };
        }
        if text.starts_with('-') {
            return Err(ValueError::Negative {
                parameter: self,
                text: own(),
                zero: match self {
                    Self::HaltPollNs | Self::GuestHaltPollNs => "0 disables polling",
                    Self::Grow => "0 keeps windows from growing",
                    Self::GrowStart => "0 starts at what halt_poll_ns_grow makes of 0",
                    Self::Shrink => "0 takes a window to 0 at once",
                    Self::GuestGrow => "0 and 1 stay at guest_halt_poll_grow_start",
                    Self::GuestGrowStart => "0 starts at what guest_halt_poll_grow makes of 0",
                    Self::GuestShrink => "0 takes a limit to 0 at once",
                    Self::GuestAllowShrink => "N keeps a limit from shrinking",
                },
            });
        }
        let large = || ValueError::Large {
            parameter: self,
            text: own(),
        };
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map_err(|_| large());
        }
        if !self.is_time() {
            let kind = if matches!(self, Self::Grow | Self::GuestGrow) {
                "factor"
            } else {
                "divisor"
            };
            return Err(ValueError::NoFactor {
                parameter: self,
                text: own(),
                kind,
            });
        }
        match text.parse::<Nanos>() {
            Ok(Nanos(ns)) => ns.try_into().map_err(|_| large()),
            Err(source) => Err(ValueError::NoTime {
                parameter: self,
                text: own(),
                source,
            }),
        }
    }
}

impl Parameter {
    /// A value as its file has it.
    pub fn written(self, value: u32) -> String {
        match (self, value) {
            (Self::GuestAllowShrink, 0) => "N".to_owned(),
            (Self::GuestAllowShrink, _) => "Y".to_owned(),
            _ => value.to_string(),
        }
    }
}

impl FromStr for Parameter {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|it| it.name() == text.trim());
        known.ok_or_else(|| ValueError::Name(text.to_owned()))
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod test;
