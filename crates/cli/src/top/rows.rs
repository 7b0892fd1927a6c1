//! The rows of a table: a VM each, or a vCPU each, as one step has them. Pure.

use std::rc::Rc;

use haltwise_core::event::{Observable, Vm};
use haltwise_core::exit::names::Names;
use haltwise_core::ids::VmIndex;

use super::figures::Figures;
use super::step::{Key, Step};
use crate::page::harmless;
use crate::pilot_state::PilotVm;

/// Characters of a name that are looked at; no screen shows more.
const NAME: usize = 400;

/// Remark on a VM none of whose vCPUs was in `KVM_RUN`.
const NOT_RUNNING: &str = "not running: paused, not started or stopped after an error";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TopRow {
    pub(crate) key: Key,
    /// Name of the row; steers no terminal.
    pub(crate) name: String,
    /// Why its halts cannot be seen, if they cannot; steers no terminal.
    pub(crate) blind: Option<String>,
    /// Its VM was paused and did not halt.
    pub(crate) paused: bool,
    /// Remarks of the pilot on the row, if the row is a VM.
    pub(crate) pilot: Option<Rc<PilotVm>>,
    pub(crate) figures: Figures,
}

/// A stranger's text, made harmless, and cut where no screen would show more.
pub(crate) fn tame(text: &str) -> String {
    let mut shown: String = text.chars().take(NAME).collect();
    if shown.len() < text.len() {
        shown.push('~');
    }
    harmless(&shown)
}

/// A row for each VM that was there in a step, and one for what could be given to none.
pub(crate) fn of_host(step: &Step, names: Option<&Names>) -> Vec<TopRow> {
    let vms = step.around.vms.iter().map(|vm| of_vm(step, vm, names));
    vms.chain(unplaced(step, None, names)).collect()
}

pub(crate) fn of_vm(step: &Step, vm: &Vm, names: Option<&Names>) -> TopRow {
    row(step, vm, Key::Vm(vm.index), tame(&vm.name), names)
}

pub(crate) fn of_vcpus(step: &Step, vm: &Vm, names: Option<&Names>) -> Vec<TopRow> {
    let ids = step.vcpus(vm.index).into_iter();
    let rows = ids.map(|id| {
        let key = Key::Vcpu(vm.index, id);
        let name = match step.known(key).next() {
            None => format!("vCPU {id}"),
            Some(vcpu) => format!("vCPU {id} tid {}", vcpu.tid),
        };
        row(step, vm, key, name, names)
    });
    rows.chain(unplaced(step, Some(vm.index), names)).collect()
}

fn row(step: &Step, vm: &Vm, key: Key, name: String, names: Option<&Names>) -> TopRow {
    let pilot = step.around.pilot.get(&vm.index);
    TopRow {
        key,
        name,
        blind: blind(vm),
        paused: paused(step, vm) == Some(true) && step.sum(Key::Vm(vm.index)).halts.halts == 0,
        pilot: pilot.filter(|_| key == Key::Vm(vm.index)).cloned(),
        figures: Figures::of(step, key, Some(vm), names),
    }
}

/// Data that could be assigned to no VM, or to no vCPU of this one, if there is any.
pub(crate) fn unplaced(step: &Step, vm: Option<VmIndex>, names: Option<&Names>) -> Option<TopRow> {
    let key = Key::Unplaced(vm);
    step.acted(key).then(|| TopRow {
        key,
        name: match vm {
            None => "(unknown VM)".to_owned(),
            Some(_) => "(unknown vCPU)".to_owned(),
        },
        blind: None,
        paused: false,
        pilot: None,
        figures: Figures::of(step, key, None, names),
    })
}

impl TopRow {
    pub(crate) fn instead(&self) -> Option<String> {
        match &self.blind {
            Some(reason) => Some(format!("not observable: {reason}")),
            None if self.paused => Some(NOT_RUNNING.to_owned()),
            None => None,
        }
    }
}

/// Whether a VM was paused at the end of a step; `None` where that is not known.
pub(crate) fn paused(step: &Step, vm: &Vm) -> Option<bool> {
    let paused = vm.paused?;
    match paused.from_ns {
        Some(from_ns) if from_ns < step.end_ns => Some(true),
        // The time of a pause that is over is not recorded.
        _ => (paused.over_ns == 0).then_some(false),
    }
}

pub(crate) fn blind(vm: &Vm) -> Option<String> {
    match &vm.observable {
        Observable::Yes => None,
        Observable::No(reason) => Some(tame(reason)),
    }
}

/// Whether a row is meant by what the user typed: a piece of its name, in any case.
pub(crate) fn is_meant(row: &TopRow, filter: &str) -> bool {
    let name = row.name.to_lowercase();
    name.contains(&filter.to_lowercase())
}

#[cfg(test)]
mod test;
