//! The rows of a table: a VM each, or a vCPU each, as one step has them. Pure.

use std::collections::BTreeSet;
use std::rc::Rc;

use haltwise_core::event::{Observable, Vcpu, Vm};
use haltwise_core::exit::names::Names;
use haltwise_core::ids::{VcpuId, VmIndex};

use super::figures::{Figures, Whose};
use super::step::{Cell, Step};
use crate::page::harmless;
use crate::pilot_state::PilotVm;

/// Characters of a name that are looked at; no screen shows more.
const NAME: usize = 400;

/// Of a VM none of whose vCPUs was in `KVM_RUN`.
const NOT_RUNNING: &str = "not running: paused, not started or stopped after an error";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Vm(VmIndex),
    Vcpu(VmIndex, VcpuId),
    /// What could be given to nobody, of all VMs or of one.
    Unplaced(Option<VmIndex>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TopRow {
    pub(crate) key: Key,
    /// What it is called; steers no terminal.
    pub(crate) name: String,
    /// Why its halts cannot be seen, if they cannot; steers no terminal.
    pub(crate) blind: Option<String>,
    /// Its VM was paused and did not halt.
    pub(crate) paused: bool,
    /// What the pilot says of it, if it is a VM.
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
    let mut rows: Vec<TopRow> = (step.around.vms.iter())
        .map(|vm| of_vm(step, vm, names))
        .collect();
    if let Some(cell) = step.unplaced() {
        rows.push(unplaced(step, None, &cell, names));
    }
    rows
}

pub(crate) fn of_vm(step: &Step, vm: &Vm, names: Option<&Names>) -> TopRow {
    let known = known(step, vm.index);
    let whose = Whose {
        cell: &step.vm(vm.index),
        known: &known,
        vcpus: ids(step, vm.index, &known).len(),
        cpu: step.cpus(vm.index, None),
        length_ns: step.there_ns(vm),
        names,
    };
    TopRow {
        key: Key::Vm(vm.index),
        name: tame(&vm.name),
        blind: blind(vm),
        paused: is_idle_by_pause(step, vm),
        pilot: step.around.pilot.get(&vm.index).cloned(),
        figures: Figures::of(step, whose),
    }
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
        // When a pause was that is over, nobody has noted.
        _ => (paused.over_ns == 0).then_some(false),
    }
}

fn is_idle_by_pause(step: &Step, vm: &Vm) -> bool {
    paused(step, vm) == Some(true) && step.vm(vm.index).halts.halts == 0
}

pub(crate) fn blind(vm: &Vm) -> Option<String> {
    match &vm.observable {
        Observable::Yes => None,
        Observable::No(reason) => Some(tame(reason)),
    }
}

pub(crate) fn of_vcpus(step: &Step, vm: &Vm, names: Option<&Names>) -> Vec<TopRow> {
    let known = known(step, vm.index);
    let mut rows = Vec::new();
    for id in ids(step, vm.index, &known) {
        let nothing = Cell::default();
        let own: Vec<&Vcpu> = known.iter().copied().filter(|v| v.id == id).collect();
        let whose = Whose {
            cell: step.vcpu(vm.index, id).unwrap_or(&nothing),
            known: &own,
            vcpus: 1,
            cpu: step.cpus(vm.index, Some(id)),
            length_ns: step.there_ns(vm),
            names,
        };
        rows.push(TopRow {
            key: Key::Vcpu(vm.index, id),
            name: own.first().map_or_else(
                || format!("vCPU {id}"),
                |vcpu| format!("vCPU {id} tid {}", vcpu.tid),
            ),
            blind: blind(vm),
            paused: is_idle_by_pause(step, vm),
            pilot: None,
            figures: Figures::of(step, whose),
        });
    }
    let nobody = step.of_vm(Some(vm.index)).find(|(id, _)| id.is_none());
    rows.extend(nobody.map(|(_, cell)| unplaced(step, Some(vm.index), cell, names)));
    rows
}

pub(crate) fn host(step: &Step, names: Option<&Names>) -> Figures {
    let known: Vec<&Vcpu> = step.around.vcpus.iter().collect();
    let vms = step.around.vms.iter();
    let of_vms = vms.map(|vm| ids(step, vm.index, &self::known(step, vm.index)).len());
    let whose = Whose {
        cell: &step.total(),
        known: &known,
        vcpus: of_vms.sum(),
        cpu: None,
        length_ns: step.length_ns(),
        names,
    };
    Figures::of(step, whose)
}

fn unplaced(step: &Step, vm: Option<VmIndex>, cell: &Cell, names: Option<&Names>) -> TopRow {
    let whose = Whose {
        cell,
        known: &[],
        vcpus: 0,
        cpu: None,
        length_ns: step.length_ns(),
        names,
    };
    TopRow {
        key: Key::Unplaced(vm),
        name: match vm {
            None => "(unknown VM)".to_owned(),
            Some(_) => "(unknown vCPU)".to_owned(),
        },
        blind: None,
        paused: false,
        pilot: None,
        figures: Figures::of(step, whose),
    }
}

fn known(step: &Step, vm: VmIndex) -> Vec<&Vcpu> {
    let vcpus = step.around.vcpus.iter();
    vcpus.filter(|vcpu| vcpu.vm == vm).collect()
}

/// The vCPUs of a VM that are known or did something.
fn ids(step: &Step, vm: VmIndex, known: &[&Vcpu]) -> BTreeSet<VcpuId> {
    let acted = step.of_vm(Some(vm)).filter_map(|(id, _)| id);
    known.iter().map(|vcpu| vcpu.id).chain(acted).collect()
}

/// Whether a row is meant by what the user typed: a piece of its name, in any case.
pub(crate) fn is_meant(row: &TopRow, filter: &str) -> bool {
    let name = row.name.to_lowercase();
    name.contains(&filter.to_lowercase())
}

#[cfg(test)]
mod test;
