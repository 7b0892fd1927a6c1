//! Which VMs are meant, which of them can be given a ceiling, and in which guests parameters are set.

use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::parameter::Values;
use haltwise_host::ceiling::{CeilingError, Governed, Governor};
use haltwise_host::discovery::{self, VmProcess, VmSelector};
use haltwise_host::knob::{InGuest, Target};
use haltwise_host::root::Root;
use serde::Serialize;

use super::name_of;
use crate::exit::{Exit, Failure};
use crate::knob::explain::explain;
use crate::plan::PlannedCeiling;

pub(crate) type Wanted = Vec<(Target, u32)>;

#[derive(Debug, Serialize)]
pub(crate) struct Unset {
    pub(crate) vm: String,
    pub(crate) why: String,
}

impl Unset {
    pub(crate) fn ended(root: &Root, target: Target) -> Self {
        Self {
            vm: name_of(root, target),
            why: "the VM has ended meanwhile".to_owned(),
        }
    }
}

fn selected<'a>(
    vms: &'a [VmProcess],
    wanted: &[VmSelector],
) -> Result<Vec<&'a VmProcess>, Failure> {
    let selected = wanted.iter().map(|selector| selector.select(vms));
    let selected: Result<_, _> = selected.collect();
    selected.map_err(|error| Failure::new(Exit::Usage, anyhow::Error::new(error)))
}

pub(crate) fn in_guests(
    root: &Root,
    wanted: &[VmSelector],
    parameters: &Values,
) -> Result<Wanted, Failure> {
    let vms = discovery::scan(root)?.vms;
    let mut guests = Vec::new();
    for vm in selected(&vms, wanted)? {
        let of_vm = parameters.iter();
        guests.extend(of_vm.map(|(parameter, value)| {
            let vm = vm.key;
            (Target::Guest(InGuest { vm, parameter }), value)
        }));
    }
    guests.sort_unstable();
    guests.dedup();
    Ok(guests)
}

pub(crate) fn of_vms(root: &Root, wanted: &[VmSelector], ns: u32) -> Result<Wanted, Failure> {
    let vms = discovery::scan(root)?.vms;
    let selected = selected(&vms, wanted)?;
    let mut ceilings = Vec::new();
    for (vm, keys) in selected.iter().zip(governed(root, &selected)) {
        let keys = keys.map_err(|it| explain(it.into()))?;
        if keys.is_empty() {
            let error = anyhow::anyhow!("set the ceiling of {}: its VMM reports no VM", vm.pid());
            return Err(Failure::new(Exit::Failed, error));
        }
        ceilings.extend(keys.into_iter().map(|key| (Target::Ceiling(key), ns)));
    }
    ceilings.sort_unstable();
    ceilings.dedup();
    Ok(ceilings)
}

/// Those of a plan's VMs that run and can be given one, and why the others cannot.
pub(crate) fn of_plan(
    root: &Root,
    wanted: &[PlannedCeiling],
) -> Result<(Wanted, Vec<Unset>), Failure> {
    let (mut ceilings, mut unset) = (Vec::new(), Vec::new());
    if wanted.is_empty() {
        return Ok((ceilings, unset));
    }
    let vms = discovery::scan(root)?.vms;
    let found = wanted.iter().flat_map(|wanted| {
        let of = move |vm| Some((wanted, vm, meant(vm, &wanted.vm)?));
        vms.iter().filter_map(of)
    });
    let found: Vec<_> = found.collect();
    let is_absent = |it: &&PlannedCeiling| found.iter().all(|(of, ..)| of.vm != it.vm);
    unset.extend(wanted.iter().filter(is_absent).map(|it| Unset {
        vm: it.vm.clone(),
        why: "no VM of this name runs; apply the plan again when it does".to_owned(),
    }));
    let processes: Vec<&VmProcess> = found.iter().map(|(_, vm, _)| *vm).collect();
    for ((wanted, _, meant), keys) in found.iter().zip(governed(root, &processes)) {
        let is_meant = |key: &VmKey| match meant {
            Meant::All => true,
            Meant::One(ordinal) => key.ordinal == *ordinal,
        };
        match keys {
            Ok(keys) => {
                let keys = keys.into_iter().filter(is_meant);
                ceilings.extend(keys.map(|key| (Target::Ceiling(key), wanted.halt_poll_ns)));
            }
            Err(error) => unset.push(Unset {
                vm: wanted.vm.clone(),
                why: error.to_string(),
            }),
        }
    }
    ceilings.sort_unstable();
    Ok((ceilings, unset))
}

#[derive(Clone, Copy)]
enum Meant {
    All,
    One(u32),
}

/// Those of this name, if it has any; where a process has several VMs, captures number them.
fn meant(vm: &VmProcess, name: &str) -> Option<Meant> {
    if vm.label.name == name {
        return Some(Meant::All);
    }
    let ordinal = name.strip_prefix(&vm.label.name)?.strip_prefix('-')?;
    let ordinal = ordinal.parse().ok().filter(|_| vm.has_several())?;
    Some(Meant::One(ordinal))
}

fn governed(root: &Root, vms: &[&VmProcess]) -> Vec<Result<Vec<VmKey>, CeilingError>> {
    let pids: Vec<Pid> = vms.iter().map(|vm| vm.pid()).collect();
    let listed = Governor::list_all(root, &pids).into_iter();
    let keys = |(key, vms): (VmKey, Vec<Governed>)| {
        let each = (0..).zip(&vms);
        each.map(|(ordinal, _)| VmKey { ordinal, ..key }).collect()
    };
    listed.map(|listed| listed.map(keys)).collect()
}
