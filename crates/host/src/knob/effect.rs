//! Whether running VMs follow a new ceiling, found out by watching them.
//!
//! Not by the kernel's version: kernels 5.8 to 6.0 copy `halt_poll_ns` when a VM is made, stable and
//! distribution kernels carry fixes early, and any VM may have a cap of its own. With BPF, each VM's ceiling is read
//! where KVM has it ([`walk`]). Without BPF, halts show it: one whose length lies between
//! the old ceiling and the new is judged differently under each ([`watch_halts`]).

use std::collections::BTreeMap;
use std::time::Duration;

use haltwise_core::event::{CeilingSource, Facts, Halt, WindowCall};
use haltwise_core::ids::Pid;
use haltwise_core::kvm::{Knobs, Observed, Rule};
use serde::Serialize;

use crate::bpf::{self, FoundVcpu};
use crate::collector::{CollectError, CollectOptions, Collector};
use crate::discovery::{self, VcpuThreads, VmProcess};
use crate::perf::PerfCollector;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CeilingChange {
    /// `halt_poll_ns` before, in nanoseconds.
    pub old: u32,
    pub now: Knobs,
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

/// Watches halts after a change for a while.
pub fn watch_halts(
    root: &Root,
    time: Duration,
    rule: &Rule,
    change: &CeilingChange,
) -> Result<Vec<Watched>, CollectError> {
    let mut collector = PerfCollector::start(CollectOptions::default(), root.clone())?;
    std::thread::sleep(time);
    let mut facts = Facts::default();
    collector.stop(&mut facts)?;
    let named = discovery::scan(root).unwrap_or_default().vms;
    let process = |halt: &Halt| {
        let place = usize::try_from(halt.vm?.0).ok()?;
        Some(collector.roster().vms.get(place)?.key.pid)
    };
    let mut halts: BTreeMap<Pid, Vec<Halt>> = BTreeMap::new();
    for halt in facts.halts {
        if let Some(pid) = process(&halt) {
            halts.entry(pid).or_default().push(halt);
        }
    }
    let watched = named.iter().map(|vm| {
        let halts = halts.get(&vm.pid()).map_or(&[][..], Vec::as_slice);
        let (effect, why) = match by_halts(halts, rule, change) {
            Ok(effect) => (effect, None),
            Err(why) => (Effect::NotTold, Some(why.to_owned())),
        };
        Watched {
            name: vm.label.name.clone(),
            pid: vm.pid().0,
            vcpus: vm.vcpus.len(),
            effect,
            ceiling_ns: (effect == Effect::Follows).then_some(change.now.halt_poll_ns),
            step: None,
            window_ns: None,
            vetoed_vcpus: Vec::new(),
            running: None,
            why,
        }
    });
    Ok(watched.collect())
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

/// Effect judged by halts after the change: halts that the old ceiling and the new would have ended with
/// different calls of grow and shrink. All must agree; else, why the effect is not known.
fn by_halts(halts: &[Halt], rule: &Rule, change: &CeilingChange) -> Result<Effect, &'static str> {
    if change.old == change.now.halt_poll_ns {
        return Err("only a changed ceiling shows in halts");
    }
    let call = |ceiling: u32, window: u32, halt: &Halt| {
        let observed = Observed {
            halt_ns: rule.counted_ns(halt.halt_ns, halt.wake_latency_ns.unwrap_or(0)),
            valid: halt.valid,
            allowed: true,
        };
        let step = rule.after(&change.now, ceiling, window, observed);
        WindowCall::from(step.call)
    };
    let (mut new, mut old) = (0_u64, 0_u64);
    for halt in halts {
        let Some(window) = halt.window_ns else {
            continue;
        };
        let under = |ceiling| call(ceiling, rule.entry(window, ceiling), halt);
        let (by_new, by_old) = (under(change.now.halt_poll_ns), under(change.old));
        new += u64::from(by_new != by_old && halt.change == by_new);
        old += u64::from(by_new != by_old && halt.change == by_old);
    }
    match (new, old) {
        (0, 0) if halts.is_empty() => Err("none of its halts was seen"),
        (0, 0) => Err("none of its halts tells the old ceiling from the new"),
        (_, 0) => Ok(Effect::Follows),
        // By the old ceiling, or by a cap on the same side of these halts.
        (0, _) => Ok(Effect::Keeps),
        _ => Err("some of its halts go by the old ceiling and some by the new"),
    }
}

#[cfg(test)]
mod test;
