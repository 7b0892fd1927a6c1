//! Whether running VMs follow a new ceiling, found out by watching them.
//!
//! Not by the kernel's version: kernels 5.8 to 6.0 copy `halt_poll_ns` when a VM is made, stable and
//! distribution kernels carry fixes early, and any VM may have a cap of its own. The first rung reads
//! each VM's ceiling where KVM does ([`Walk`]). Without it, halts tell: one whose length lies between
//! the old ceiling and the new is judged differently under each ([`Halts`]).

use std::collections::BTreeMap;
use std::time::Duration;

use haltwise_core::event::{CeilingSource, Facts, Halt, WindowCall};
use haltwise_core::ids::{Pid, VcpuId};
use haltwise_core::kvm::{Arch, Knobs, Observed, Rule, Version};

use crate::bpf::{self, FoundVcpu};
use crate::collector::{CollectError, CollectOptions, Collector};
use crate::discovery::{self, VcpuThreads, VmProcess};
use crate::perf::PerfCollector;
use crate::root::Root;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CeilingChange {
    /// `halt_poll_ns` before, in nanoseconds.
    pub old: u32,
    pub now: Knobs,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Follows,
    /// It has a cap of its own, in nanoseconds, which no parameter changes.
    OwnCap(u32),
    /// Its guest disabled host polling on every vCPU (`MSR_KVM_POLL_CONTROL`): no ceiling is in force.
    GuestDisabled,
    /// It keeps another ceiling, in nanoseconds where that is known: the one copied when it was made,
    /// or its own cap, which looks the same on such kernels. It has to be started anew to follow.
    Keeps(Option<u32>),
    NotTold(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    pub pid: Pid,
    pub name: String,
    pub vcpus: usize,
    /// Smallest and largest window of the vCPUs for which KVM may poll, in nanoseconds, where they could be
    /// read. Where the guest disabled host polling KVM leaves the window as it was, and does not poll it.
    pub window_ns: Option<(u32, u32)>,
    /// The vCPUs on which the guest disabled host polling, where that could be read.
    pub disabled: Vec<VcpuId>,
    pub effect: Effect,
    /// Whether any of its vCPUs runs or is idle in `KVM_RUN`, where that can be told.
    pub running: Option<bool>,
}

pub trait Watch: std::fmt::Debug {
    /// Watches every VM of the host under a change that has been made; or the value in force, if the
    /// change is none.
    fn watch(&mut self, change: &CeilingChange) -> Result<Vec<Watched>, CollectError>;
}

/// Reads each VM's ceiling in the kernel: the first rung's walk.
#[derive(Debug)]
pub struct Walk {
    /// Where the VMs' names are read.
    pub root: Root,
}

impl Watch for Walk {
    fn watch(&mut self, change: &CeilingChange) -> Result<Vec<Watched>, CollectError> {
        let found = bpf::vcpus()?;
        let named = discovery::scan(&self.root).unwrap_or_default().vms;
        let mut watched = by_ceiling(&found, &named, change.now.halt_poll_ns);
        let threads: Vec<(Pid, VcpuThreads)> = bpf::by_vm(&found)
            .into_iter()
            .map(|((pid, _), vcpus)| {
                let tids = vcpus.iter().map(|vcpu| vcpu.tid);
                (pid, VcpuThreads::of_vcpus(tids))
            })
            .collect();
        let look = |(pid, threads): &(Pid, VcpuThreads)| {
            discovery::is_in_kvm_run(&self.root, *pid, threads)
        };
        for (vm, running) in watched.iter_mut().zip(discovery::settled(&threads, look)) {
            // Where halts never reach KVM, the VMM holds idle vCPUs too.
            vm.running = running.filter(|_| !matches!(vm.effect, Effect::NotTold(_)));
        }
        Ok(watched)
    }
}

/// Watches halts for a while: the second rung.
#[derive(Debug)]
pub struct Halts {
    pub root: Root,
    pub time: Duration,
    pub kernel: (Version, Arch),
}

impl Watch for Halts {
    fn watch(&mut self, change: &CeilingChange) -> Result<Vec<Watched>, CollectError> {
        let mut collector = PerfCollector::start(CollectOptions::default(), self.root.clone())?;
        std::thread::sleep(self.time);
        let mut facts = Facts::default();
        collector.stop(&mut facts)?;
        let named = discovery::scan(&self.root).unwrap_or_default().vms;
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
        let rule = Rule::of(self.kernel.0, self.kernel.1);
        let none = Vec::new();
        let watched = named.iter().map(|vm| Watched {
            pid: vm.pid(),
            name: vm.label.name.clone(),
            vcpus: vm.vcpus.len(),
            window_ns: None,
            disabled: Vec::new(),
            effect: by_halts(halts.get(&vm.pid()).unwrap_or(&none), &rule, change),
            running: None,
        });
        Ok(watched.collect())
    }
}

/// Effect on each VM, judged by the ceilings that were read.
pub fn by_ceiling(found: &[FoundVcpu], named: &[VmProcess], param: u32) -> Vec<Watched> {
    let vms = bpf::by_vm(found);
    let name = |pid: Pid, number: Option<u32>| {
        let named = named.iter().find(|vm| vm.pid() == pid);
        named.map_or_else(|| format!("process {pid}"), |vm| vm.name_of(number))
    };
    let rows = vms.iter().map(|((pid, number), vcpus)| {
        let windows = || vcpus.iter().filter_map(|vcpu| vcpu.polled_window_ns());
        let disabled = vcpus.iter().filter(|vcpu| vcpu.is_disabled());
        let disabled: Vec<VcpuId> = disabled.map(|vcpu| vcpu.id).collect();
        let effect = match vcpus.iter().find_map(|vcpu| vcpu.vm_ceiling) {
            None => Effect::Follows,
            Some((ns, CeilingSource::Cap)) => Effect::OwnCap(ns),
            Some((ns, _)) if ns == param => Effect::Follows,
            Some((ns, _)) => Effect::Keeps(Some(ns)),
        };
        let blind = vcpus.iter().any(|vcpu| vcpu.hlt_in_guest || vcpu.no_lapic);
        Watched {
            pid: *pid,
            name: name(*pid, *number),
            vcpus: vcpus.len(),
            window_ns: windows().min().zip(windows().max()),
            effect: if blind {
                Effect::NotTold("its halts never reach KVM's polling".to_owned())
            } else if disabled.len() == vcpus.len() {
                Effect::GuestDisabled
            } else {
                effect
            },
            disabled,
            running: None,
        }
    });
    rows.collect()
}

/// Effect judged by halts after the change: halts that the old ceiling and the new would have ended with
/// different calls of grow and shrink. All must agree.
pub fn by_halts(halts: &[Halt], rule: &Rule, change: &CeilingChange) -> Effect {
    let not_told = |why: &str| Effect::NotTold(why.to_owned());
    if change.old == change.now.halt_poll_ns {
        return not_told("only a changed ceiling shows in halts");
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
        (0, 0) if halts.is_empty() => not_told("none of its halts was seen"),
        (0, 0) => not_told("none of its halts tells the old ceiling from the new"),
        (_, 0) => Effect::Follows,
        // By the old ceiling, or by a cap on the same side of these halts.
        (0, _) => Effect::Keeps(None),
        _ => not_told("some of its halts go by the old ceiling and some by the new"),
    }
}

#[cfg(test)]
mod test;
