//! The parameters of halt polling: one table of what the kernel says of each.
//!
//! Four are `unsigned int` of module `kvm` (`virt/kvm/kvm_main.c`): live, and for the whole host. Five are of the
//! guest's governor, module `haltpoll` (`drivers/cpuidle/governors/haltpoll.c`): four `unsigned int`, and
//! `guest_halt_poll_allow_shrink`, a `bool`, of which 1 and 0 are written as Y and N.
//!
//! Defaults by kernel are in [`crate::kvm::Knobs::defaults`] and [`crate::kvm::guest::Params`].

mod values;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use self::values::Values;
use crate::event::{Knob, KnobScope};
use crate::recording::Side;
use crate::units::{DurationParseError, Nanos};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nanoseconds.
    Time,
    Factor,
    Divisor,
    Flag,
}

struct Row {
    name: &'static str,
    module: &'static str,
    path: &'static str,
    key: &'static str,
    kind: Kind,
    since: &'static str,
    zero: &'static str,
}

macro_rules! parameters {
    ($($(#[$doc:meta])* $parameter:ident: $module:literal $name:literal, $key:literal, $kind:ident, since $since:literal,
       $zero:literal;)*) => {
        /// One of KVM's four parameters of the polling window, or of the guest governor's five, under the name that the
        /// kernel gives it.
        ///
        /// The order is the one in which they are written: the ceiling last, so that no window grows by the
        /// old factors under the new ceiling.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Parameter {
            $($(#[$doc])* #[serde(rename = $name)] $parameter,)*
        }

        impl Parameter {
            /// All of them, in the order in which they are written.
            pub const ALL: [Self; 9] = [$(Self::$parameter),*];

            const NAMES: [&'static str; 9] = [$($name),*];

            const fn row(self) -> &'static Row {
                match self {
                    $(Self::$parameter => &Row {
                        name: $name,
                        module: $module,
                        path: concat!("sys/module/", $module, "/parameters/", $name),
                        key: $key,
                        kind: Kind::$kind,
                        since: $since,
                        zero: $zero,
                    },)*
                }
            }
        }
    };
}

// Module and name; the key of a policy; what it is; the first kernel that lets it be written while it runs; what 0 means.
parameters! {
    /// The factor by which a window grows. Since 4.3, writable since 4.6.
    Grow: "kvm" "halt_poll_ns_grow", "grow", Factor, since "4.6", "0 keeps windows from growing";
    /// The first window above 0.
    GrowStart: "kvm" "halt_poll_ns_grow_start", "grow_start", Time, since "5.1",
        "0 starts at what halt_poll_ns_grow makes of 0";
    /// The divisor by which a window shrinks, 0 for at once to 0. Since 4.3, writable since 4.6.
    Shrink: "kvm" "halt_poll_ns_shrink", "shrink", Divisor, since "4.6", "0 takes a window to 0 at once";
    /// The ceiling of every VM that has none of its own.
    HaltPollNs: "kvm" "halt_poll_ns", "max", Time, since "4.0", "0 disables polling";
    /// The factor by which a limit grows.
    GuestGrow: "haltpoll" "guest_halt_poll_grow", "grow", Factor, since "5.4",
        "0 and 1 stay at guest_halt_poll_grow_start";
    /// The first limit above 0.
    GuestGrowStart: "haltpoll" "guest_halt_poll_grow_start", "grow_start", Time, since "5.4",
        "0 starts at what guest_halt_poll_grow makes of 0";
    /// The divisor by which a limit shrinks, 0 for at once to 0.
    GuestShrink: "haltpoll" "guest_halt_poll_shrink", "shrink", Divisor, since "5.4", "0 takes a limit to 0 at once";
    /// Whether a limit shrinks, 1 or 0.
    GuestAllowShrink: "haltpoll" "guest_halt_poll_allow_shrink", "allow_shrink", Flag, since "5.4",
        "N keeps a limit from shrinking";
    /// The ceiling of the limit.
    GuestHaltPollNs: "haltpoll" "guest_halt_poll_ns", "max", Time, since "5.4", "0 disables polling";
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
    #[error("{parameter} cannot be `{text}`: it is {reason}")]
    Refused {
        parameter: Parameter,
        text: String,
        reason: String,
    },
    #[error("{parameter} cannot be `{text}`; it takes nanoseconds (80000) or a time (80us)")]
    NoTime {
        parameter: Parameter,
        text: String,
        #[source]
        source: DurationParseError,
    },
}

impl Parameter {
    /// KVM's, the ceiling first.
    pub const HOST: [Self; 4] = [Self::HaltPollNs, Self::Grow, Self::GrowStart, Self::Shrink];

    /// Those of the guest's governor, the ceiling first.
    pub const GUEST: [Self; 5] = [
        Self::GuestHaltPollNs,
        Self::GuestGrow,
        Self::GuestGrowStart,
        Self::GuestShrink,
        Self::GuestAllowShrink,
    ];

    pub const fn of_side(side: Side) -> &'static [Self] {
        match side {
            Side::Host => &Self::HOST,
            Side::Guest => &Self::GUEST,
        }
    }

    pub const fn name(self) -> &'static str {
        self.row().name
    }

    pub const fn module(self) -> &'static str {
        self.row().module
    }

    /// Its key in the policies `kvm` and `guest-haltpoll`.
    pub const fn key(self) -> &'static str {
        self.row().key
    }

    /// Its name without what all of a module have; the ceiling's whole.
    pub fn short(self) -> &'static str {
        match self.key() {
            "max" => self.name(),
            key => key,
        }
    }

    /// Whether it is one of the guest's governor.
    pub fn is_of_guest(self) -> bool {
        self.module() == "haltpoll"
    }

    /// Its file, below the root of the file system.
    pub const fn path(self) -> &'static str {
        self.row().path
    }

    /// Whether it is a time in nanoseconds, and not a factor or divisor.
    pub const fn is_time(self) -> bool {
        matches!(self.row().kind, Kind::Time)
    }

    pub const fn is_flag(self) -> bool {
        matches!(self.row().kind, Kind::Flag)
    }

    /// The first kernel that lets it be written while it runs.
    pub const fn since(self) -> &'static str {
        self.row().since
    }

    /// Which one a recorded setting is, if it is one of them and can be read.
    pub fn of(knob: &Knob) -> Option<(Self, u32)> {
        let parameter: Self = knob.name.parse().ok()?;
        let scope = if parameter.is_of_guest() {
            KnobScope::GuestOfOther
        } else {
            KnobScope::Host
        };
        let value = parameter.read(knob.value.trim())?;
        (knob.scope == scope).then_some((parameter, value))
    }

    /// Reads a value as its file has it.
    fn read(self, text: &str) -> Option<u32> {
        match (self.row().kind, text) {
            (Kind::Flag, "Y") => Some(1),
            (Kind::Flag, "N") => Some(0),
            _ => text.parse().ok(),
        }
    }

    /// Reads a value as people write it: `80us`, `80000`, `0`; factors without a unit.
    pub fn value(self, text: &str) -> Result<u32, ValueError> {
        let text = text.trim();
        let refused = |reason: &str| ValueError::Refused {
            parameter: self,
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        if self.is_flag() {
            return match text {
                "Y" | "y" | "1" => Ok(1),
                "N" | "n" | "0" => Ok(0),
                _ => Err(refused("Y or N")),
            };
        }
        if text.starts_with('-') {
            let zero = self.row().zero;
            return Err(refused(&format!(
                "unsigned, so that nothing below 0 means off or default; {zero}"
            )));
        }
        let large = || refused("an unsigned int, 4294967295 at most");
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map_err(|_| large());
        }
        match self.row().kind {
            Kind::Factor => return Err(refused("a factor, a whole number without a unit")),
            Kind::Divisor => return Err(refused("a divisor, a whole number without a unit")),
            Kind::Time | Kind::Flag => {}
        }
        match text.parse::<Nanos>() {
            Ok(Nanos(ns)) => ns.try_into().map_err(|_| large()),
            Err(source) => Err(ValueError::NoTime {
                parameter: self,
                text: text.to_owned(),
                source,
            }),
        }
    }

    /// A value as its file has it.
    pub fn written(self, value: u32) -> String {
        match (self.row().kind, value) {
            (Kind::Flag, 0) => "N".to_owned(),
            (Kind::Flag, _) => "Y".to_owned(),
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
