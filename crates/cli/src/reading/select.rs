//! Which VMs of a capture are meant.

use anyhow::anyhow;
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::Roster;

use crate::exit::{Exit, Failure};
use crate::page;

/// The VMs that `--vm` means: by name, else by another of its names, else by process. Without it, all.
pub(crate) fn vms(roster: &Roster, selector: Option<&str>) -> Result<Vec<VmIndex>, Failure> {
    let all = &roster.vms;
    let pick = |is_it: &dyn Fn(&Vm) -> bool| -> Vec<_> {
        all.iter()
            .filter(|vm| is_it(vm))
            .map(|vm| vm.index)
            .collect()
    };
    let Some(selector) = selector else {
        return Ok(pick(&|_| true));
    };
    let mut picked = pick(&|vm| vm.name == selector);
    if picked.is_empty() {
        picked = pick(&|vm| vm.identity.has(selector));
    }
    if picked.is_empty() {
        picked = pick(&|vm| vm.key.pid.to_string() == selector);
    }
    if picked.is_empty() {
        let known: Vec<String> = all
            .iter()
            .map(|vm| format!("{} ({})", page::harmless(&vm.name), vm.key.pid))
            .collect();
        let error = anyhow!("no VM `{}` in this capture", page::harmless(selector));
        let hint = if known.is_empty() {
            "the capture contains no VM".to_owned()
        } else {
            format!("it holds {}", known.join(", "))
        };
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    }
    Ok(picked)
}
