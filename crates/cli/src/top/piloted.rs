//! Remarks of the pilot on the VMs, where a pilot runs: read from the state that it keeps.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::pilot::standing::PilotVm;
use haltwise_host::clock;
use haltwise_host::root::Root;

use crate::page::Page;
use crate::pilot_state::{PilotStatus, kept, text};

/// Between two readings. The pilot looks at its VMs every 10 s.
const EACH: Duration = Duration::from_secs(5);

/// VMs that the pilot knows; none where no pilot runs.
pub(crate) type Piloted = BTreeMap<VmIndex, Rc<PilotVm>>;

#[derive(Debug, Default)]
pub(crate) struct Reader {
    at: Option<Instant>,
    status: Option<PilotStatus>,
}

impl Reader {
    pub(crate) fn of(&mut self, root: &Root, vms: &[Vm]) -> Piloted {
        if self.at.is_none_or(|at| at.elapsed() >= EACH) {
            self.at = Some(Instant::now());
            self.status = kept::status_at(root, clock::wall_ns());
        }
        let status = self.status.as_ref();
        status.map_or_else(Piloted::new, |status| of(status, vms))
    }
}

/// Remarks of the pilot on these VMs. One process may run several VMs, which their names distinguish.
pub(crate) fn of(status: &PilotStatus, vms: &[Vm]) -> Piloted {
    let mut of_process: BTreeMap<u32, Vec<&PilotVm>> = BTreeMap::new();
    for vm in &status.vms {
        of_process.entry(vm.pid).or_default().push(vm);
    }
    let of_vm = |vm: &Vm| {
        let found = match of_process.get(&vm.key.pid.0)?.as_slice() {
            [only] => *only,
            several => several.iter().copied().find(|it| it.vm == vm.name)?,
        };
        Some((vm.index, Rc::new(found.clone())))
    };
    vms.iter().filter_map(of_vm).collect()
}

pub(crate) fn paragraph(first: &str, vm: &PilotVm, width: usize) -> String {
    let mut page = Page::new(width);
    text::vm(&mut page, first, vm);
    page.finish()
}

#[cfg(test)]
pub(crate) mod test;
