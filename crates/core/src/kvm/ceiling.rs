//! Source of the ceiling: the module parameter, the VM's own value, or a copy made when the VM was created.
//!
//! A ceiling is read from its sources anew for every halt; what the sources are changed twice.

use serde::{Deserialize, Serialize};

use super::rule::{Clamp, GrowthCap, Rule};
use crate::event::CeilingSource;

/// Where KVM takes a VM's ceiling from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CeilingRule {
    /// From the module parameter, live. Up to 5.7.
    Param,
    /// From `kvm->max_halt_poll_ns`, which `kvm_create_vm` sets to the module parameter and
    /// `KVM_CAP_HALT_POLL` sets to anything: writes to the parameter reach only VMs made later.
    ///
    /// 5.8 to 6.0, commit acd05785.
    SnapshotOrCap,
    /// From `kvm->max_halt_poll_ns` once `KVM_CAP_HALT_POLL` was used on the VM, else from the module
    /// parameter, live: `kvm_vcpu_max_halt_poll_ns`. There is no way back to the parameter.
    ///
    /// Since 6.1, commit 9eb8ca04.
    CapElseParam,
}

/// All that can set the ceiling of one VM, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ceilings {
    /// The module parameter `halt_poll_ns` now.
    pub param_halt_poll_ns: u32,
    /// The module parameter when the VM was made.
    pub param_at_creation: u32,
    /// The last value given to `KVM_CAP_HALT_POLL` on the VM, if it was ever used.
    pub vm_max_halt_poll_ns: Option<u32>,
}

impl Ceilings {
    /// A VM without a value of its own, on a host whose parameter has not changed since.
    pub const fn of_param(param_halt_poll_ns: u32) -> Self {
        Self {
            param_halt_poll_ns,
            param_at_creation: param_halt_poll_ns,
            vm_max_halt_poll_ns: None,
        }
    }
}

impl Rule {
    /// The ceiling in force in nanoseconds, and whose word it is.
    pub fn ceiling(&self, set: Ceilings) -> (u32, CeilingSource) {
        let param = (set.param_halt_poll_ns, CeilingSource::Param);
        let snapshot = (set.param_at_creation, CeilingSource::Snapshot);
        let cap = set.vm_max_halt_poll_ns.map(|ns| (ns, CeilingSource::Cap));
        match self.ceiling {
            CeilingRule::Param => param,
            CeilingRule::SnapshotOrCap => cap.unwrap_or(snapshot),
            CeilingRule::CapElseParam => cap.unwrap_or(param),
        }
    }

    /// Whether a VM's own value moves windows as a parameter of that value does. From 5.8 to 5.12 growth is capped at the
    /// parameter all the same.
    pub fn takes_caps(&self) -> bool {
        let is_clamped = self.clamp == Clamp::AtEntry || self.growth_cap == GrowthCap::Ceiling;
        self.ceiling != CeilingRule::Param && is_clamped
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::kvm::Arch;

    const CAPPED: Ceilings = Ceilings {
        param_halt_poll_ns: 1,
        param_at_creation: 2,
        vm_max_halt_poll_ns: Some(3),
    };
    const UNCAPPED: Ceilings = Ceilings {
        vm_max_halt_poll_ns: None,
        ..CAPPED
    };

    fn on(version: &str, set: Ceilings) -> (u32, CeilingSource) {
        Rule::of(version.parse().unwrap(), Arch::X86).ceiling(set)
    }

    #[test]
    fn who_sets_the_ceiling_changed_twice() {
        use CeilingSource::{Cap, Param, Snapshot};
        for (version, uncapped, capped) in [
            ("4.0", (1, Param), (1, Param)),
            ("4.3", (1, Param), (1, Param)),
            ("5.7", (1, Param), (1, Param)),
            ("5.8", (2, Snapshot), (3, Cap)),
            ("5.13", (2, Snapshot), (3, Cap)),
            ("6.0", (2, Snapshot), (3, Cap)),
            ("6.1", (1, Param), (3, Cap)),
            ("7.2", (1, Param), (3, Cap)),
        ] {
            assert_eq!(on(version, UNCAPPED), uncapped, "{version}");
            assert_eq!(on(version, CAPPED), capped, "{version}");
        }
    }
}
