//! Fixes that a kernel may carry before its number says so.
//!
//! Stable trees and distributions take fixes back. Their kernels keep the old number, so a release
//! cannot tell. A recording does: [`crate::verify::carried`] finds out what its kernel has. Fixes that were
//! found, or that the user gives, stand in the [`Version`](super::Version), and so in every rule.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ceiling::CeilingRule;
use super::rule::{GrowStart, GrowthCap, Rule, WindowOf};

crate::names! {
    /// A change of the rule that is known, or likely, to be in kernels older than the one it came with.
    ///
    /// The oldest first.
    pub enum Backport {
        /// The parameter `grow_start`, which a window that grows is lifted to; a factor of 0 leaves the window.
        /// Upstream 5.1 (commits 7fa08e71, 49113d36, dee339b5).
        GrowStart = "grow-start",
        /// A VM may have a ceiling of its own, and keeps the parameter of its start without one. Upstream 5.8
        /// (commit acd05785).
        VmCeiling = "vm-ceiling",
        /// Growth is capped at the VM's own ceiling, no longer at the module parameter. Upstream 5.13; in
        /// Debian's 5.10.0-32.
        GrowthCap = "growth-cap",
        /// Polling stops when the CPU has to reschedule, which moves no window. Upstream 5.13; in stable 5.10.223 (read
        /// there).
        NeedResched = "need-resched",
        /// A window that shrinks below `grow_start` goes to 0. Upstream 5.16; in stable 5.10.223 and in a
        /// stable 5.4 (read in both; that 5.4 lacks the stop for the scheduler). The fix was posted for
        /// older stable trees too; which took it is not known here.
        ShrinkFloor = "shrink-floor",
        /// VMs without a cap follow the module parameter live, the window is clamped when a halt begins
        /// and no longer when it grows. Upstream 6.1 (commits 97b6847a, 175d5dc7, 9eb8ca04); whether
        /// 6.0.y took it is not known here. A kernel before 5.8 that carries it has [`Self::VmCeiling`] with it.
        LiveCeiling = "live-ceiling",
        /// A halt counts until its wake event, as `halt-polling.rst` has it, not until the vCPU runs again. In no
        /// released kernel: a patch of `contrib/kernel`. A recording is held against it only if it is given.
        BlockTime = "block-time",
    }
}

/// Why a text does not name a backport.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a known backport: grow-start, vm-ceiling, growth-cap, need-resched, shrink-floor, \
     live-ceiling, block-time"
)]
pub struct BackportParseError(pub String);

impl Backport {
    /// Those of released kernels that show in windows. (When polling stops, no window tells.)
    pub fn of_windows() -> impl Iterator<Item = Self> + Clone {
        let all = Self::ALL.into_iter();
        all.filter(|backport| !matches!(backport, Self::NeedResched | Self::BlockTime))
    }
}

/// Several backports, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Backports(u8);

impl Backports {
    pub const NONE: Self = Self(0);

    #[must_use]
    pub const fn with(self, backport: Backport) -> Self {
        Self(self.0 | 1 << backport as u8)
    }

    /// Each of them, oldest first.
    pub fn iter(self) -> impl Iterator<Item = Backport> {
        let has = move |backport: &Backport| self.0 & (1 << *backport as u8) != 0;
        Backport::ALL.into_iter().filter(has)
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Backport> for Backports {
    fn from_iter<I: IntoIterator<Item = Backport>>(backports: I) -> Self {
        backports.into_iter().fold(Self::NONE, Self::with)
    }
}

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
        Backport::of_windows().any(|backport| self.with(backport) != self)
    }

    /// The same rule with one change taken back into it; as it is where the kernel has it already, or
    /// has nothing that it could change. Several are taken back oldest first.
    #[must_use]
    pub fn with(mut self, backport: Backport) -> Self {
        match backport {
            _ if self.window != WindowOf::Vcpu => {}
            Backport::GrowStart => self.grow_start = GrowStart::Param,
            Backport::VmCeiling if self.ceiling == CeilingRule::Param => {
                self.ceiling = CeilingRule::SnapshotOrCap;
            }
            Backport::GrowthCap
                if self.ceiling == CeilingRule::SnapshotOrCap
                    && self.growth_cap == GrowthCap::Param =>
            {
                self.growth_cap = GrowthCap::Ceiling;
            }
            Backport::ShrinkFloor => self.shrink_floor = true,
            Backport::LiveCeiling => return self.with_live_ceiling(),
            Backport::BlockTime => self.until_wake = true,
            // Where polling stops for the scheduler no window shows.
            Backport::NeedResched | Backport::VmCeiling | Backport::GrowthCap => {}
        }
        self
    }
}

impl FromStr for Backport {
    type Err = BackportParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_name(text).ok_or_else(|| BackportParseError(text.to_owned()))
    }
}
