//! When the pilot's state is kept on disk: as soon as what it says of a VM has changed, and each minute.

use std::time::{Duration, Instant};

use haltwise_host::root::Root;

use crate::pilot_state::PilotStatus;
use crate::pilot_state::kept::{self, Kept};
use crate::terminal;

/// The state on disk is no older than this.
const OLDEST: Duration = Duration::from_mins(1);

/// What it said of a VM, by the process of its VMM and its name.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    pid: u32,
    vm: String,
    state: String,
    why: String,
    ceiling_ns: Option<u64>,
}

/// Keeps the state.
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
        why: vm.why.clone(),
        ceiling_ns: vm.ceiling_ns,
    });
    of.collect()
}

impl Keeping {
    /// Whether this is to be kept: each write goes to the disk.
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
