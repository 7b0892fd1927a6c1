//! KVM's module parameters, as the rule reads them, and their defaults.
//!
//! The per-VM ceiling is not among them: see [`super::ceiling`].

use serde::{Deserialize, Serialize};

use super::arch::Arch;
use super::version::Version;

/// The parameters of the module `kvm`, `virt/kvm/kvm_main.c`; live, for the whole host.
///
/// A kernel that lacks one of them ignores the field; what it uses in its place is said there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Knobs {
    /// `halt_poll_ns` in nanoseconds: the ceiling of every VM that has none of its own.
    pub halt_poll_ns: u32,
    /// `halt_poll_ns_grow`: the factor by which a window grows. Since 4.3.
    pub grow: u32,
    /// `halt_poll_ns_grow_start` in nanoseconds: the first window above 0. Since 5.1; 10 us in the
    /// code before.
    pub grow_start: u32,
    /// `halt_poll_ns_shrink`: the divisor by which a window shrinks, 0 for "at once to 0". Since 4.3.
    pub shrink: u32,
}

/// The first window in kernels without a parameter for it, and the parameter's default since.
///
/// Source: `grow_halt_poll_ns`, commit aca6ff29; the parameter came with commit 49113d36.
pub const GROW_START: u32 = 10_000;

impl Knobs {
    /// In the order of [`Parameter::HOST`](crate::parameter::Parameter::HOST).
    pub const fn of([halt_poll_ns, grow, grow_start, shrink]: [u32; 4]) -> Self {
        Self {
            halt_poll_ns,
            grow,
            grow_start,
            shrink,
        }
    }

    /// The default parameters of an upstream kernel.
    ///
    /// Before 4.3 there is only `halt_poll_ns`; the other fields are then 0 and nothing reads them.
    /// A distribution may build other defaults in.
    pub fn defaults(version: Version, arch: Arch) -> Self {
        let from = |major, minor| version >= Version::new(major, minor);
        let dynamic = from(4, 3);
        Self {
            halt_poll_ns: default_halt_poll_ns(version, arch),
            grow: if dynamic { 2 } else { 0 },
            grow_start: if dynamic { GROW_START } else { 0 },
            // Commit aeb1b22a; 6.11 by the date of its merge, inferred (6.1 has 0, 6.12 has 2).
            shrink: if from(6, 11) { 2 } else { 0 },
        }
    }
}

/// `KVM_HALT_POLL_NS_DEFAULT` in `arch/*/include/asm/kvm_host.h`; one constant for all in 4.3.
///
/// Read in 4.9, 4.19, 5.10, 6.1, 6.12 and 7.2; between those, by the commits named below.
fn default_halt_poll_ns(version: Version, arch: Arch) -> u32 {
    let from = |major, minor| version >= Version::new(major, minor);
    if !from(4, 3) {
        return 0;
    }
    match arch {
        // 500 to 400 us: commit 14ebda33. 400 to 200 us: after 4.9, not after 4.19; 4.12 from memory.
        Arch::X86 if from(4, 12) => 200_000,
        Arch::X86 if from(4, 6) => 400_000,
        // 80 to 50 us: with the steal limit, tag kvm-s390-master-5.2-1. The port got a constant of its
        // own between 4.3 and 4.9; which kernel, no source at hand says: 4.7, with the invalid wakeups
        // that made polling worth it there, is inferred.
        Arch::S390 if from(5, 2) => 50_000,
        Arch::S390 if from(4, 7) => 80_000,
        // 500 to 10 us: commit f4944613, because any regular load below 500 us burnt a whole CPU.
        Arch::Powerpc if from(4, 10) => 10_000,
        _ => 500_000,
    }
}
