//! What a kernel may carry before its number says so.
//!
//! Stable trees and distributions take fixes back. Their kernels keep the old number, so
//! [`Rule::of`] cannot know. Whoever compares a recording with the rule can say what the kernel has,
//! with [`Rule::with`], or try both.

use std::fmt;
use std::str::FromStr;

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

impl Rule {
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
