//! When the pilot's state is kept on disk: when a VM's state or ceiling has changed, and each minute.

use std::time::{Duration, Instant};

use haltwise_host::root::Root;

use crate::pilot_state::PilotStatus;
use crate::pilot_state::kept::{self, Kept};
use crate::terminal;

/// The state on disk is no older than this.
const OLDEST: Duration = Duration::from_mins(1);

/// What people wait to see of a VM. Reasons are not part of it: those of a choice that waits hold figures of the moment, and
/// each write goes to the disk.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    pid: u32,
    vm: String,
    state: String,
    ceiling_ns: Option<u64>,
    would_set_ns: Option<u64>,
    has_been_looked_at: bool,
}

#[derive(Debug, Default)]
pub(super) struct Keeping {
    at: Option<Instant>,
    said: Vec<Said>,
    has_failed: bool,
}

fn said(status: &PilotStatus) -> Vec<Said> {
    let of = status.vms.iter().map(|vm| Said {
        pid: vm.pid,
        vm: vm.vm.clone(),
        state: vm.state.clone(),
        ceiling_ns: vm.ceiling_ns,
        would_set_ns: vm.would_set_ns,
        has_been_looked_at: vm.latency_mean_ns.is_some(),
    });
    of.collect()
}

impl Keeping {
    pub(super) fn is_due(&self, status: &PilotStatus) -> bool {
        self.at.is_none_or(|at| at.elapsed() >= OLDEST) || self.said != said(status)
    }

    /// Keeps it now. That it cannot be is said once.
    pub(super) fn keep(&mut self, root: &Root, kept: &Kept) {
        self.at = Some(Instant::now());
        self.said = said(&kept.status);
        let done = kept::keep(root, kept);
        if let (Err(error), false) = (&done, self.has_failed) {
            terminal::say(&format!(
                "warning: the pilot's state was not written: {error:#}"
            ));
        }
        self.has_failed = done.is_err();
    }
}
