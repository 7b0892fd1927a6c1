//! The rows of a table: a VM each, or a vCPU each, as one step has them. Pure.

use std::rc::Rc;

use haltwise_core::event::{Observable, Vm};
use haltwise_core::exit::names::Names;
use haltwise_core::ids::VmIndex;

use super::figures::IntervalFigures;
use super::step::{Key, Step};
use crate::page::harmless;
use haltwise_core::pilot::standing::PilotVm;

/// Characters of a name that are looked at; no screen shows more.
const NAME: usize = 400;

/// Remark on a VM none of whose vCPUs was in `KVM_RUN`.
const NOT_RUNNING: &str = "not running: paused, not started or stopped after an error";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TopRow {
    pub(crate) key: Key,
    /// Name of the row; steers no terminal.
    pub(crate) name: String,
    /// Why the row has no figures, if it has none; steers no terminal.
    pub(crate) instead: Option<String>,
    /// Remarks of the pilot on the row, if the row is a VM.
    pub(crate) pilot: Option<Rc<PilotVm>>,
    pub(crate) vcpus: usize,
    pub(crate) vetoes: usize,
    pub(crate) figures: IntervalFigures,
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
    row(step, Some(vm), Key::Vm(vm.index), tame(&vm.name), names)
}

pub(crate) fn of_vcpus(step: &Step, vm: &Vm, names: Option<&Names>) -> Vec<TopRow> {
    let ids = step.vcpus(vm.index).into_iter();
    let rows = ids.map(|id| {
        let key = Key::Vcpu(vm.index, id);
        let name = match step.known(key).next() {
            None => format!("vCPU {id}"),
            Some(vcpu) => format!("vCPU {id} tid {}", vcpu.tid),
        };
        row(step, Some(vm), key, name, names)
    });
    rows.chain(unplaced(step, Some(vm.index), names)).collect()
}

pub(crate) fn of_all(step: &Step, names: Option<&Names>) -> TopRow {
    row(step, None, Key::Host, String::new(), names)
}

/// Data that could be assigned to no VM, or to no vCPU of this one, if there is any.
pub(crate) fn unplaced(step: &Step, vm: Option<VmIndex>, names: Option<&Names>) -> Option<TopRow> {
    let key = Key::Unplaced(vm);
    let name = match vm {
        None => "(unknown VM)",
        Some(_) => "(unknown vCPU)",
    };
    step.acted(key)
        .then(|| row(step, None, key, name.to_owned(), names))
}

/// `vm`: the VM that the subject is, or is in.
fn row(step: &Step, vm: Option<&Vm>, key: Key, name: String, names: Option<&Names>) -> TopRow {
    let vcpus = match key {
        Key::Host => {
            let vms = step.around.vms.iter();
            vms.map(|vm| step.vcpus(vm.index).len()).sum()
        }
        Key::Vm(vm) => step.vcpus(vm).len(),
        Key::Vcpu(..) => 1,
        Key::Unplaced(_) => 0,
    };
    let vetoes = step.known(key).filter(|it| it.guest_veto == Some(true));
    let pilot = match key {
        Key::Vm(index) => step.around.pilot.get(&index),
        _ => None,
    };
    TopRow {
        key,
        name,
        instead: vm.and_then(|vm| instead(step, vm)),
        pilot: pilot.cloned(),
        vcpus,
        vetoes: vetoes.count(),
        figures: IntervalFigures::of(step, key, vm, vcpus, names),
    }
}

fn instead(step: &Step, vm: &Vm) -> Option<String> {
    if let Observable::No(reason) = &vm.observable {
        return Some(format!("not observable: {}", tame(reason)));
    }
    let halted = || step.sum(Key::Vm(vm.index)).halts.halts > 0;
    (paused(step, vm) == Some(true) && !halted()).then(|| NOT_RUNNING.to_owned())
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

/// Whether a row is meant by what the user typed: a piece of its name, in any case.
pub(crate) fn is_meant(row: &TopRow, filter: &str) -> bool {
    let name = row.name.to_lowercase();
    name.contains(&filter.to_lowercase())
}

#[cfg(test)]
mod test;
