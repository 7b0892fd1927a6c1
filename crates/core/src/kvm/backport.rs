//! What a kernel may carry before its number says so.
//!
//! Stable trees and distributions take fixes back. Their kernels keep the old number, so a release
//! cannot tell. A recording does: [`crate::verify::carried`] finds out what its kernel has. What was
//! found, or is said by somebody, stands in the [`Version`](super::Version), and so in every rule.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ceiling::CeilingRule;
use super::rule::{Rule, WindowOf};

/// A change of the rule that is known, or likely, to be in kernels older than the one it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backport {
    /// Polling stops when the CPU has to reschedule. Upstream 5.13; in stable 5.10.223 (read there).
    NeedResched,
    /// A window that shrinks below `grow_start` goes to 0. Upstream 5.16; in stable 5.10.223 and in a
    /// stable 5.4 (read in both; that 5.4 lacks the stop for the scheduler). The fix was posted for
    /// older stable trees too; which took it is not known here.
    ShrinkFloor,
    /// VMs without a cap follow the module parameter live, the window is clamped when a halt begins
    /// and no longer when it grows. Upstream 6.1 (commits 97b6847a, 175d5dc7, 9eb8ca04); whether
    /// 6.0.y took it is not known here.
    LiveCeiling,
}

/// Why a text does not name a backport.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a known backport: need-resched, shrink-floor, live-ceiling")]
pub struct BackportParseError(pub String);

impl Backport {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::NeedResched, Self::ShrinkFloor, Self::LiveCeiling];

    /// The name read and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeedResched => "need-resched",
            Self::ShrinkFloor => "shrink-floor",
            Self::LiveCeiling => "live-ceiling",
        }
    }
}

/// Several backports, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Backports(u8);

impl Backports {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// With one more.
    #[must_use]
    pub const fn with(self, backport: Backport) -> Self {
        Self(self.0 | 1 << backport as u8)
    }

    /// Each of them, oldest first.
    pub fn iter(self) -> impl Iterator<Item = Backport> {
        let has = move |backport: &Backport| self.0 & (1 << *backport as u8) != 0;
        Backport::ALL.into_iter().filter(has)
    }

    /// How many.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All sets of those that show in windows, the smallest first. (When polling stops, no window tells.)
    pub fn of_windows() -> [Self; 4] {
        let floor = Self::NONE.with(Backport::ShrinkFloor);
        let live = Self::NONE.with(Backport::LiveCeiling);
        [Self::NONE, floor, live, floor.with(Backport::LiveCeiling)]
    }
}

impl FromIterator<Backport> for Backports {
    fn from_iter<I: IntoIterator<Item = Backport>>(backports: I) -> Self {
        backports.into_iter().fold(Self::NONE, Self::with)
    }
}

/// A list of names.
impl Serialize for Backports {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Backport::as_str))
    }
}

impl<'de> Deserialize<'de> for Backports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let each = names.iter().map(|name| name.parse::<Backport>());
        each.collect::<Result<_, _>>().map_err(D::Error::custom)
    }
}

impl fmt::Display for Backports {
    /// As a kernel's number is followed by them: `+shrink-floor+live-ceiling`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter()
            .try_for_each(|backport| write!(f, "+{}", backport.as_str()))
    }
}

impl Rule {
    /// Whether a kernel of this rule may carry a change that windows show.
    pub fn may_carry_more(self) -> bool {
        let sets = Backports::of_windows().into_iter();
        sets.flat_map(Backports::iter)
            .any(|backport| self.with(backport) != self)
    }

    /// The same rule with one change taken back into it; as it is where the kernel has it already, or
    /// has nothing that it could change.
    #[must_use]
    pub fn with(self, backport: Backport) -> Self {
        match (backport, self.window) {
            (Backport::NeedResched, _) => Self {
                stops_on_need_resched: true,
                ..self
            },
            (Backport::ShrinkFloor, WindowOf::Vcpu) => Self {
                shrink_floor: true,
                ..self
            },
            (Backport::LiveCeiling, WindowOf::Vcpu)
                if self.ceiling == CeilingRule::SnapshotOrCap =>
            {
                self.with_live_ceiling()
            }
            (Backport::ShrinkFloor | Backport::LiveCeiling, _) => self,
        }
    }
}

impl FromStr for Backport {
    type Err = BackportParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|backport| backport.as_str() == text)
            .ok_or_else(|| BackportParseError(text.to_owned()))
    }
}

impl fmt::Display for Backport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod test;
