//! Identifiers of processes, threads, virtual machines and virtual CPUs.
//!
//! Numbers of different meaning have different types, so that a thread id is never taken for a vCPU index.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// A process (a thread group) as the root PID namespace numbers it: the VMM.
    Pid
}
id! {
    /// A thread as the root PID namespace numbers it: what runs a vCPU.
    Tid
}
id! {
    /// KVM's `vcpu_id`, the number given to `KVM_CREATE_VCPU`.
    VcpuId
}
id! {
    /// The row of a VM in a capture's table of VMs; meaningful inside one capture only.
    VmIndex
}

/// One virtual machine for ever: its VMM process, told from later ones of the same number by its start time.
///
/// A VMM process that runs several VMs has one `VmKey` for each, told apart by `ordinal`
/// (the order in which their first vCPU was seen).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct VmKey {
    pub pid: Pid,
    /// Start of that process, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
    /// 0 for the first VM of the process.
    pub ordinal: u32,
}

impl VmKey {
    pub const fn first(pid: Pid, start_ticks: u64) -> Self {
        Self {
            pid,
            start_ticks,
            ordinal: 0,
        }
    }
}

crate::names! {
    /// Which VMM runs a VM.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum VmmKind {
        /// QEMU, started by hand or by libvirt.
        Qemu = "qemu",
        Crosvm = "crosvm",
        Firecracker = "firecracker",
        CloudHypervisor = "cloud-hypervisor",
        /// haltwise's own lab.
        HaltwiseLab = "haltwise-lab",
        /// Any other user of /dev/kvm; also a VMM that only a newer haltwise knows by name.
        #[serde(other)]
        #[default]
        Other = "other",
    }
}
