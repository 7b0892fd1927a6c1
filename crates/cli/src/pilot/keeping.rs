//! When the pilot's state is kept on disk: when a VM's state or ceiling has changed, and each minute.

use std::time::{Duration, Instant};

use haltwise_core::pilot::standing::PilotVm;
use haltwise_host::root::Root;

use crate::pilot_state::PilotStatus;
use crate::pilot_state::kept::{self, Kept};
use crate::terminal;

/// The state on disk is no older than this.
const OLDEST: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Keeping {
    at: Option<Instant>,
    vms: Vec<PilotVm>,
    has_failed: bool,
}

/// True if nothing shown of the VM changed. Reasons are not compared: those of a waiting choice hold figures of the moment,
/// and each write goes to the disk.
fn is_same(vm: &PilotVm, kept: &PilotVm) -> bool {
    (vm.pid, &vm.vm, &vm.state) == (kept.pid, &kept.vm, &kept.state)
        && (vm.ceiling_ns, vm.would_set_ns) == (kept.ceiling_ns, kept.would_set_ns)
        && vm.latency_mean_ns.is_some() == kept.latency_mean_ns.is_some()
}

impl Keeping {
    pub(super) fn is_due(&self, status: &PilotStatus) -> bool {
        let is_old = self.at.is_none_or(|at| at.elapsed() >= OLDEST);
        let has_as_many = status.vms.len() == self.vms.len();
        let mut both = status.vms.iter().zip(&self.vms);
        is_old || !has_as_many || !both.all(|(vm, kept)| is_same(vm, kept))
    }

    /// Keeps it now. That it cannot be is said once.
    pub(super) fn keep(&mut self, root: &Root, kept: &Kept) {
        self.at = Some(Instant::now());
        self.vms.clone_from(&kept.status.vms);
        let done = kept::keep(root, kept);
        if let (Err(error), false) = (&done, self.has_failed) {
            terminal::say(&format!(
                "warning: the pilot's state was not written: {error:#}"
            ));
        }
        self.has_failed = done.is_err();
    }
}
