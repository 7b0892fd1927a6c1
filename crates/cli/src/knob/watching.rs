//! Asks the VMs that run whether they follow, by the best way that this host allows.

use std::time::Duration;

use haltwise_core::kvm::{Arch, Knobs, Rule, Version};
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::recording::Rung;
use haltwise_host::clock;
use haltwise_host::collector::CollectError;
use haltwise_host::knob::effect::{self, CeilingChange, Effect, Watched};
use haltwise_host::root::Root;
use haltwise_host::support::{self, Support};

use super::value;

/// How long halts are watched where ceilings cannot be read: at a timer tick of 100 Hz, two hundred
/// halts of each idle vCPU.
const TIME: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Vms {
    pub(crate) rows: Vec<Watched>,
    /// Why there is none.
    pub(crate) unwatched: Option<String>,
}

impl From<Result<Vec<Watched>, CollectError>> for Vms {
    fn from(watched: Result<Vec<Watched>, CollectError>) -> Self {
        match watched {
            Ok(rows) => Self {
                rows,
                unwatched: None,
            },
            Err(error) => Self::unwatched(format!("{:#}", anyhow::Error::new(error))),
        }
    }
}

impl Vms {
    fn unwatched(why: String) -> Self {
        Self {
            rows: Vec::new(),
            unwatched: Some(why),
        }
    }

    /// Which running VMs do not follow `halt_poll_ns`, as a warning. Of many some are named.
    pub(crate) fn warning(&self) -> Option<String> {
        const NAMED: usize = 5;
        let refuses = |vm: &Watched| Some((vm.name.clone(), refuses(vm)?));
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

/// Why a VM does not follow a new `halt_poll_ns`, in half a sentence; `None` if it does, or if unknown.
pub(crate) fn refuses(vm: &Watched) -> Option<&'static str> {
    match vm.effect {
        Effect::OwnCap => Some("its own ceiling"),
        Effect::GuestDisabled => Some("its guest disabled host polling"),
        Effect::Keeps => Some("it keeps the ceiling it was created with"),
        Effect::Follows | Effect::NotTold => None,
    }
}

pub(crate) fn watch(root: &Root, change: &CeilingChange) -> Vms {
    let support = match inspect(root) {
        Ok(support) => support,
        Err(why) => return Vms::unwatched(why),
    };
    match (support.best_rung(), kernel(&support.kernel.text)) {
        (Some(Rung::Bpf), _) => effect::walk(root, change.now.halt_poll_ns).into(),
        (Some(_), Some((version, arch))) => {
            effect::watch_halts(root, TIME, &Rule::of(version, arch), change).into()
        }
        _ => {
            let refused = support.tracepoints.err();
            let why = refused.map_or_else(|| "unknown kernel".to_owned(), |it| it.to_string());
            Vms::unwatched(why)
        }
    }
}

/// Looks at the VMs under the settings in force. Halts do not show a ceiling that did not change.
pub(crate) fn look(root: &Root) -> Vms {
    let Some(now) = knobs(root) else {
        return Vms::unwatched("KVM's parameters are not there".to_owned());
    };
    let allowed = inspect(root).and_then(|support| {
        let refused = |refusal| format!("their ceilings take BPF to read: {refusal}");
        support.bpf.map_err(refused)
    });
    match allowed {
        Ok(()) => effect::walk(root, now.halt_poll_ns).into(),
        Err(why) => Vms::unwatched(why),
    }
}

fn inspect(root: &Root) -> Result<Support, String> {
    if !root.is_host() {
        return Err("no VM runs under another root".to_owned());
    }
    support::inspect(root, clock::monotonic_ns()).map_err(|it| it.to_string())
}

/// This kernel, as the reference model tells kernels apart.
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
