//! Whether running VMs follow a new ceiling: each VM's ceiling is read where KVM has it, with BPF.
//!
//! Not by the kernel's version: kernels 5.8 to 6.0 copy `halt_poll_ns` when a VM is made, stable and
//! distribution kernels carry fixes early, and any VM may have a cap of its own. Before 5.8 every VM follows.

use std::collections::BTreeMap;

use haltwise_core::event::CeilingSource;
use haltwise_core::ids::Pid;
use serde::Serialize;

use crate::bpf::{self, FoundVcpu};
use crate::collector::CollectError;
use crate::discovery::{self, VcpuThreads, VmProcess};
use crate::root::Root;

#[derive(Debug)]
pub struct FoundVm<'a> {
    pub pid: Pid,
    /// The number in its name, where the process has several VMs: the order in which a walk finds them.
    pub number: Option<u32>,
    pub vcpus: Vec<&'a FoundVcpu>,
}

impl<'a> FoundVm<'a> {
    pub fn all(found: &'a [FoundVcpu]) -> Vec<Self> {
        let mut processes: BTreeMap<Pid, Vec<(u64, Vec<&FoundVcpu>)>> = BTreeMap::new();
        for vcpu in found {
            let vms = processes.entry(vcpu.pid).or_default();
            match vms.iter_mut().find(|(vm, _)| *vm == vcpu.vm) {
                Some((_, vcpus)) => vcpus.push(vcpu),
                None => vms.push((vcpu.vm, vec![vcpu])),
            }
        }
        let of_process = |(pid, vms): (Pid, Vec<(u64, Vec<&'a FoundVcpu>)>)| {
            let has_several = vms.len() > 1;
            let numbered = (0..).zip(vms);
            numbered.map(move |(number, (_, vcpus))| Self {
                pid,
                number: has_several.then_some(number),
                vcpus,
            })
        };
        processes.into_iter().flat_map(of_process).collect()
    }

    pub fn name(&self, named: Option<&VmProcess>) -> String {
        let name = |vm: &VmProcess| vm.name_of(self.number);
        named.map_or_else(|| format!("process {}", self.pid), name)
    }

    /// Its own ceiling, where it is in force (a cap), or may be (a snapshot).
    pub fn ceiling(&self) -> Option<(u32, CeilingSource)> {
        self.vcpus.iter().find_map(|vcpu| vcpu.vm_ceiling)
    }

    /// Smallest and largest window of the vCPUs for which KVM may poll. Where the guest disabled host polling KVM leaves
    /// the window as it was, and does not poll it.
    pub fn window_ns(&self) -> Option<(u32, u32)> {
        let polled = self.vcpus.iter().filter(|vcpu| !vcpu.is_disabled());
        let windows = polled.map(|vcpu| vcpu.window_ns);
        windows.clone().min().zip(windows.max())
    }

    pub fn disabled(&self) -> Vec<u32> {
        let disabled = self.vcpus.iter().filter(|vcpu| vcpu.is_disabled());
        disabled.map(|vcpu| vcpu.id.0).collect()
    }

    pub fn blind(&self) -> Option<&'static str> {
        if self.vcpus.iter().any(|vcpu| vcpu.hlt_in_guest) {
            Some("exits on HLT are disabled: halts stay inside the guest")
        } else if self.vcpus.iter().any(|vcpu| vcpu.no_lapic) {
            Some("no LAPIC in the kernel: halts go to the VMM")
        } else {
            None
        }
    }

    pub fn threads(&self) -> (Pid, VcpuThreads) {
        let tids = self.vcpus.iter().map(|vcpu| vcpu.tid);
        (self.pid, VcpuThreads::of_vcpus(tids))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    Follows,
    OwnCap,
    /// Its guest disabled host polling on every vCPU (`MSR_KVM_POLL_CONTROL`): no ceiling is in force.
    GuestDisabled,
    /// It keeps another ceiling: the one copied when it was made, or its own cap, which looks the same on such kernels.
    /// It has to be restarted to follow.
    Keeps,
    NotTold,
}

/// A VM that was watched, as the JSON of `apply` and `status` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Watched {
    pub name: String,
    pub pid: u32,
    pub vcpus: usize,
    pub effect: Effect,
    pub ceiling_ns: Option<u32>,
    /// Number of the apply that set a ceiling of its own, if that was haltwise, in `status`.
    pub step: Option<u64>,
    /// Smallest and largest window of the vCPUs for which KVM may poll, where they could be read.
    pub window_ns: Option<(u32, u32)>,
    /// The vCPUs on which the guest disabled host polling, where that could be read.
    pub vetoed_vcpus: Vec<u32>,
    /// Whether any of its vCPUs runs or is idle in `KVM_RUN`, where that is known.
    pub running: Option<bool>,
    pub why: Option<String>,
}

/// Reads each VM's ceiling in the kernel, where `halt_poll_ns` has this value. The VMs' names are read below `root`.
pub fn walk(root: &Root, halt_poll_ns: u32) -> Result<Vec<Watched>, CollectError> {
    let found = bpf::vcpus()?;
    let named = discovery::scan(root).unwrap_or_default().vms;
    let mut watched = by_ceiling(&found, &named, halt_poll_ns);
    let vms = FoundVm::all(&found);
    let threads: Vec<_> = vms.iter().map(FoundVm::threads).collect();
    let running = discovery::are_running(root, &threads);
    for (vm, running) in watched.iter_mut().zip(running) {
        // Where halts never reach KVM, the VMM holds idle vCPUs too.
        vm.running = running.filter(|_| vm.effect != Effect::NotTold);
    }
    Ok(watched)
}

fn by_ceiling(found: &[FoundVcpu], named: &[VmProcess], halt_poll_ns: u32) -> Vec<Watched> {
    let row = |vm: &FoundVm<'_>| {
        let disabled = vm.disabled();
        let (effect, ceiling_ns) = match vm.ceiling() {
            _ if vm.blind().is_some() => (Effect::NotTold, None),
            _ if disabled.len() == vm.vcpus.len() => (Effect::GuestDisabled, None),
            None => (Effect::Follows, Some(halt_poll_ns)),
            Some((ns, CeilingSource::Cap)) => (Effect::OwnCap, Some(ns)),
            Some((ns, _)) if ns == halt_poll_ns => (Effect::Follows, Some(ns)),
            Some((ns, _)) => (Effect::Keeps, Some(ns)),
        };
        let blind = "its halts never reach KVM's polling".to_owned();
        Watched {
            name: vm.name(named.iter().find(|named| named.pid() == vm.pid)),
            pid: vm.pid.0,
            vcpus: vm.vcpus.len(),
            effect,
            ceiling_ns,
            step: None,
            window_ns: vm.window_ns(),
            vetoed_vcpus: disabled,
            running: None,
            why: (effect == Effect::NotTold).then_some(blind),
        }
    };
    FoundVm::all(found).iter().map(row).collect()
}

#[cfg(test)]
mod test;
