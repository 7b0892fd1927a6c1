//! Differences between kernels and ports, as one value: the rule of an era.
//!
//! A [`Rule`] is data. What its fields lead to is in [`super::step`] and [`super::ceiling`].
//! The fields are public, so that a kernel with fixes of a newer one can be described;
//! [`super::backport`] has the known ones by name.
//!
//! | from | what changes | field |
//! |---|---|---|
//! | 4.0 | polls for the module parameter on every halt | [`WindowOf::Param`] |
//! | 4.3 | a window for each vCPU, grown from 10 us without bound | [`WindowOf::Vcpu`], [`GrowStart::Fixed`] |
//! | 4.6 | growth is capped at the module parameter | [`GrowthCap::Param`] |
//! | 4.7 | invalid wakeups shrink (s390) | `invalid_wakeups` |
//! | 5.1 | `grow_start`; a factor of 0 leaves the window | [`GrowStart::Param`] |
//! | 5.2, 5.3 | a vCPU may be kept from polling (s390, x86) | [`NoPoll::Adapts`] |
//! | 5.4 | such a vCPU's window is left as it is | [`NoPoll::Freezes`] |
//! | 5.8 | each VM has a ceiling, copied when it is made | [`CeilingRule::SnapshotOrCap`] |
//! | 5.13 | growth is capped at the VM's ceiling; polling stops for the scheduler, which no window shows | [`GrowthCap::Ceiling`] |
//! | 5.16 | shrinking below `grow_start` gives 0 | `shrink_floor` |
//! | 6.1 | the ceiling is live, and clamps where a halt begins | [`CeilingRule::CapElseParam`], [`Clamp::AtEntry`] |
//!
//! Only the default of `shrink` changed after that, see [`super::knobs`].
//! Since 5.17 KVM counts every halt that polled and never slept as a successful poll; no window depends on it.

use super::arch::Arch;
use super::ceiling::CeilingRule;
use super::version::Version;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WindowOf {
    /// No window: KVM does not poll.
    NoPolling,
    /// No window: every halt polls for the module parameter. 4.0 to 4.2, commit f7819512996361.
    Param,
    /// Each vCPU: `vcpu->halt_poll_ns`. Since 4.3, commits 19020f8a and aca6ff29.
    Vcpu,
}

/// How growth starts, and what a factor of 0 does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GrowStart {
    /// A window of 0 becomes 10 us unless the factor is 0, any other is multiplied: a factor of 0
    /// makes it 0. Up to 5.0, `grow_halt_poll_ns` as read in 4.9 and 4.19.
    Fixed,
    /// Whatever the product, it is at least `grow_start`; a factor of 0 leaves the window as it is.
    /// Since 5.1, commits 7fa08e71, 49113d36 and dee339b5.
    Param,
}

/// Limit that a window cannot pass while the window grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GrowthCap {
    /// No limit. 4.3 to 4.5, where a window may stay above its ceiling for good; and since 6.1, where
    /// the next halt clamps it, see [`Clamp::AtEntry`].
    None,
    /// The module parameter. 4.6 to 5.12: commit 313f636d. From 5.8 on that is not the VM's ceiling,
    /// and so a VM with a higher one never gets there: mended by 5.13.
    Param,
    /// The VM's ceiling. 5.13 to 6.0.
    Ceiling,
}

/// Where a window above its ceiling is cut, without a word to any tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clamp {
    /// Nowhere. A ceiling that sinks does not reach a window that has grown, until it shrinks.
    Never,
    /// When a halt begins: `kvm_vcpu_halt`, since 6.1, commit 97b6847a.
    AtEntry,
}

/// How a vCPU that must not poll treats its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoPoll {
    /// There is no such vCPU: the port lacks `HAVE_KVM_NO_POLL`, or the kernel is older.
    Unknown,
    /// It moves the window as if it had polled. s390 since 5.2, x86 since 5.3 (commit 2d5ba19b).
    Adapts,
    /// It leaves the window as it is. Since 5.4, commit 44551b2f (written in October 2019; read in a
    /// stable 5.4, so a 5.4 that never saw an update may still adapt).
    Freezes,
}

/// The rule of an era, on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rule {
    pub window: WindowOf,
    /// Where the ceiling comes from.
    pub ceiling: CeilingRule,
    pub grow_start: GrowStart,
    /// Limit that growth cannot pass.
    pub growth_cap: GrowthCap,
    /// Whether a window that shrinks below the parameter `grow_start` goes to 0 (since 5.16,
    /// `shrink_halt_poll_ns`). Without it a window halves down to a nanosecond, and then to 0.
    pub shrink_floor: bool,
    /// Where a window above its ceiling is cut.
    pub clamp: Clamp,
    /// Whether wakeups can be invalid, which shrinks: `vcpu_valid_wakeup`, s390 alone
    /// (`HAVE_KVM_INVALID_WAKEUPS`), since 4.7, commit 3491caf2.
    pub invalid_wakeups: bool,
    /// Treatment of the window of a vCPU that must not poll.
    pub no_poll: NoPoll,
    /// Whether a halt counts until its wake event, not until the vCPU runs again: see
    /// [`Backport::BlockTime`](super::Backport::BlockTime).
    pub until_wake: bool,
}

impl Rule {
    /// The rule of a kernel on a port: upstream's of its number, with what it carries.
    ///
    /// A kernel before 4.0, which does not poll, has the rule [`WindowOf::NoPolling`]; one after 7.2
    /// has that of 7.2. [`Version::is_transcribed`] tells both.
    pub fn of(version: Version, arch: Arch) -> Self {
        let upstream = Self::upstream(version, arch);
        version.backports.iter().fold(upstream, Self::with)
    }

    fn upstream(version: Version, arch: Arch) -> Self {
        let from = |major, minor| version >= Version::new(major, minor);
        let rule = Self {
            window: match () {
                () if from(4, 3) => WindowOf::Vcpu,
                () if from(4, 0) => WindowOf::Param,
                () => WindowOf::NoPolling,
            },
            ceiling: if from(5, 8) {
                CeilingRule::SnapshotOrCap
            } else {
                CeilingRule::Param
            },
            grow_start: if from(5, 1) {
                GrowStart::Param
            } else {
                GrowStart::Fixed
            },
            growth_cap: match () {
                () if from(5, 13) => GrowthCap::Ceiling,
                () if from(4, 6) => GrowthCap::Param,
                () => GrowthCap::None,
            },
            shrink_floor: from(5, 16),
            clamp: Clamp::Never,
            invalid_wakeups: arch == Arch::S390 && from(4, 7),
            no_poll: no_poll(version, arch),
            until_wake: false,
        };
        if from(6, 1) {
            rule.with_live_ceiling()
        } else {
            rule
        }
    }

    /// Applies the change of 6.1: the ceiling live, the clamp moved from growth to the entry of a halt.
    pub(super) fn with_live_ceiling(self) -> Self {
        Self {
            ceiling: CeilingRule::CapElseParam,
            growth_cap: GrowthCap::None,
            clamp: Clamp::AtEntry,
            ..self
        }
    }

    /// Whether grow and shrink show in the tracepoint `kvm_halt_poll_ns` (since 4.3, commit 2cbd7824).
    pub fn is_traced(&self) -> bool {
        self.window == WindowOf::Vcpu
    }
}

fn no_poll(version: Version, arch: Arch) -> NoPoll {
    let since = match arch {
        Arch::S390 => Version::new(5, 2),
        Arch::X86 => Version::new(5, 3),
        _ => return NoPoll::Unknown,
    };
    match version {
        _ if version < since => NoPoll::Unknown,
        _ if version < Version::new(5, 4) => NoPoll::Adapts,
        _ => NoPoll::Freezes,
    }
}
