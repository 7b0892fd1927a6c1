//! Asks the VMs that run whether they follow, by the best way that this host allows.

use std::time::Duration;

use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::recording::Rung;
use haltwise_host::clock;
use haltwise_host::knob::effect::{CeilingChange, Effect, Halts, Walk, Watch, Watched};
use haltwise_host::root::Root;
use haltwise_host::support::{self, Support};
use serde::Serialize;

use super::value;

/// How long halts are watched where ceilings cannot be read: at a timer tick of 100 Hz, two hundred
/// halts of each idle vCPU.
const TIME: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Vms {
    pub(crate) rows: Vec<VmView>,
    /// Why there is none.
    pub(crate) unwatched: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct VmView {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) vcpus: usize,
    /// `follows`, `own-cap`, `guest-disabled` (its guest disabled host polling on every vCPU), `keeps` (has
    /// to be started anew to follow) or `not-told`.
    pub(crate) effect: &'static str,
    pub(crate) ceiling_ns: Option<u32>,
    /// Number of the apply that set a ceiling of its own, if that was haltwise, in `status`.
    pub(crate) step: Option<u64>,
    /// Smallest and largest window of the vCPUs for which KVM may poll.
    pub(crate) window_ns: Option<(u32, u32)>,
    /// The vCPUs on which the guest disabled host polling.
    pub(crate) vetoed_vcpus: Vec<u32>,
    /// Whether any of its vCPUs runs or is idle in the kernel; `null` if that cannot be told.
    pub(crate) running: Option<bool>,
    pub(crate) why: Option<String>,
}

impl Vms {
    pub(crate) fn unwatched(why: &str) -> Self {
        Self {
            rows: Vec::new(),
            unwatched: Some(why.to_owned()),
        }
    }
}

impl VmView {
    /// Why it does not follow a new `halt_poll_ns`, in half a sentence; `None` if it does, or if that cannot
    /// be told.
    pub(crate) fn refuses(&self) -> Option<&'static str> {
        match self.effect {
            "own-cap" => Some("its own ceiling"),
            "guest-disabled" => Some("its guest disabled host polling"),
            "keeps" => Some("it keeps the ceiling it was created with"),
            _ => None,
        }
    }
}

impl Vms {
    /// Which running VMs do not follow `halt_poll_ns`, as a warning. Of many some are named.
    pub(crate) fn warning(&self) -> Option<String> {
        const NAMED: usize = 5;
        let refuses = |vm: &VmView| Some((vm.name.clone(), vm.refuses()?));
        let refusing: Vec<(String, &str)> = self.rows.iter().filter_map(refuses).collect();
        let (all, none) = (self.rows.len(), refusing.len());
        if none == 0 {
            return None;
        }
        let mut named: Vec<String> = (refusing.iter().take(NAMED))
            .map(|(name, why)| format!("{name} ({why})"))
            .collect();
        if none > NAMED {
            named.push(format!("{} more", none - NAMED));
        }
        let who = match all {
            all if all == none => "halt_poll_ns applies to no running VM".to_owned(),
            all => format!("halt_poll_ns does not apply to {none} of {all} running VMs"),
        };
        Some(format!("{who}: {}", named.join(", ")))
    }
}

pub(crate) fn watch(root: &Root, change: &CeilingChange) -> Vms {
    match watcher(root) {
        Ok(mut watcher) => watch_with(watcher.as_mut(), change),
        Err(why) => Vms::unwatched(&why),
    }
}

/// Looks at the VMs under the settings in force. Halts do not tell a ceiling that did not change.
pub(crate) fn look(root: &Root, now: Knobs) -> Vms {
    let allowed = inspect(root).and_then(|support| {
        let refused = |refusal| format!("their ceilings take BPF to read: {refusal}");
        support.bpf.map_err(refused)
    });
    if let Err(why) = allowed {
        return Vms::unwatched(&why);
    }
    let change = CeilingChange {
        old: now.halt_poll_ns,
        now,
    };
    let root = root.clone();
    watch_with(&mut Walk { root }, &change)
}

pub(crate) fn watch_with(watcher: &mut dyn Watch, change: &CeilingChange) -> Vms {
    match watcher.watch(change) {
        Ok(vms) => Vms {
            rows: vms.into_iter().map(|vm| row(vm, change)).collect(),
            unwatched: None,
        },
        Err(error) => Vms::unwatched(&format!("{:#}", anyhow::Error::new(error))),
    }
}

fn inspect(root: &Root) -> Result<Support, String> {
    if !root.is_host() {
        return Err("no VM runs under another root".to_owned());
    }
    support::inspect(root, clock::monotonic_ns()).map_err(|it| it.to_string())
}

fn watcher(root: &Root) -> Result<Box<dyn Watch>, String> {
    let support = inspect(root)?;
    let root = root.clone();
    match (support.best_rung(), kernel(&support.kernel.text)) {
        (Some(Rung::Bpf), _) => Ok(Box::new(Walk { root })),
        (Some(_), Some(kernel)) => Ok(Box::new(Halts {
            root,
            time: TIME,
            kernel,
        })),
        _ => {
            let refused = support.tracepoints.err();
            Err(refused.map_or_else(|| "unknown kernel".to_owned(), |it| it.to_string()))
        }
    }
}

fn row(vm: Watched, change: &CeilingChange) -> VmView {
    let (effect, ceiling_ns, why) = match vm.effect {
        Effect::Follows => ("follows", Some(change.now.halt_poll_ns), None),
        Effect::OwnCap(ns) => ("own-cap", Some(ns), None),
        Effect::Keeps(ns) => ("keeps", ns, None),
        Effect::GuestDisabled => ("guest-disabled", None, None),
        Effect::NotTold(why) => ("not-told", None, Some(why)),
    };
    VmView {
        name: vm.name,
        pid: vm.pid.0,
        vcpus: vm.vcpus,
        effect,
        ceiling_ns,
        step: None,
        window_ns: vm.window_ns,
        running: vm.running,
        vetoed_vcpus: vm.disabled.iter().map(|vcpu| vcpu.0).collect(),
        why,
    }
}

/// This kernel, as the transcript tells kernels apart.
pub(crate) fn kernel(release: &str) -> Option<(Version, Arch)> {
    let machine = rustix::system::uname();
    let arch = Arch::of_machine(&machine.machine().to_string_lossy())?;
    Some((release.parse().ok()?, arch))
}

/// The four parameters now; what this kernel lacks is 0.
pub(crate) fn knobs(root: &Root) -> Option<Knobs> {
    let known = |it: Parameter| Some((it, value(root, it)?));
    let values: Values = Parameter::HOST.into_iter().filter_map(known).collect();
    values.get(Parameter::HaltPollNs)?;
    Some(values.into())
}

#[cfg(test)]
mod test;
