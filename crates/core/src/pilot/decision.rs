//! Decisions of the pilot: an action with its reason, its expected effect and its inverse.

use super::input::Scope;
use crate::ids::VmKey;
use crate::kvm::Knobs;
use crate::stats::Interval;

crate::names! {
    pub enum Kind {
        /// It observes, and would try a setting.
        WouldSet = "would-try",
        /// A trial begins.
        Try = "try",
        /// A period of a trial under the setting tried.
        On = "on",
        /// A period of a trial under the one before.
        Off = "off",
        /// The trial measured the gain: the setting is kept.
        Keep = "keep",
        /// The trial did not: the one before is restored.
        GoBack = "go-back",
        /// A setting that was proven in a phase like this is set again.
        Again = "again",
        /// The setting found is restored.
        Restore = "restore",
        /// Another process set it: the pilot leaves it alone from now on.
        HandsOff = "hands-off",
    }
}

impl Kind {
    pub fn is_period(self) -> bool {
        matches!(self, Self::On | Self::Off)
    }

    /// Whether it restores what was in force before: that is made also where nothing new may be set any more.
    pub fn restores(self) -> bool {
        matches!(self, Self::Off | Self::GoBack | Self::Restore)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub from: Knobs,
    pub to: Knobs,
    /// The change before this one failed, and may have been made nevertheless: then `to` is in force already, or what the
    /// journal has that the pilot has set.
    pub is_unsure: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub kind: Kind,
    pub scope: Scope,
    /// The change to make, if any; for a pilot that only observes, the change that the pilot would make.
    pub change: Option<Change>,
    pub is_made: bool,
    pub why: String,
    /// Change of the cost of a halt, as a share, as predicted.
    pub expected: Option<Interval>,
    /// The same as measured.
    pub measured: Option<Interval>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("it was set by others since")]
    Theirs,
    #[error("the VM has ended")]
    Ended,
    #[error("the VM has no ceiling of its own, and the parameter that it follows has changed")]
    Moved,
    #[error("{0}")]
    Failed(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Counted since the start: what was wanted before is something else, whatever it was.
    pub number: u64,
    pub vms: Vec<VmKey>,
    /// After so long.
    pub skip_ns: u64,
    /// For so long.
    pub length_ns: u64,
    /// No more halts are kept than this for each of them, of all together.
    pub most_halts: usize,
}
