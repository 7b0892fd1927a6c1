//! State that the pilot keeps on disk: its reports on itself, for `haltwise status`, and the data it needs after a
//! restart.

use std::time::{Duration, Instant};

use haltwise_capture::info::rfc3339;
use haltwise_core::pilot::memory::Memory;
use haltwise_core::pilot::standing::PilotVm;
use haltwise_host::knob;
use haltwise_host::root::Root;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::PilotStatus;
use crate::terminal;

#[derive(Debug, Serialize)]
pub(crate) struct Kept {
    pub(crate) status: PilotStatus,
    pub(crate) memory: Memory,
}

/// A part of what was kept last; `None` if none has run here, or another version has written it otherwise. Each part is
/// read by itself: another layout of the status does not lose what a restart needs.
fn read<T: DeserializeOwned>(root: &Root, part: &str) -> Option<T> {
    let text = knob::kept(root).ok()??;
    let mut kept: Value = serde_json::from_str(&text).ok()?;
    serde_json::from_value(kept.get_mut(part)?.take()).ok()
}

/// Last status of the pilot. A pilot that was killed could not report that it has ended.
pub(crate) fn status(root: &Root) -> Option<PilotStatus> {
    let mut status: PilotStatus = read(root, "status")?;
    let name = root.value(format!("proc/{}/comm", status.pid));
    if name.ok().as_deref() != Some("haltwise") {
        "ended".clone_into(&mut status.mode);
    }
    Some(status)
}

/// A pilot that runs renews its state each minute. What is older than three was not written by one that runs.
const FRESH_NS: u64 = 180_000_000_000;

/// Last status of the pilot, if the pilot runs at this time of the calendar, or has ended a moment ago.
pub(crate) fn status_at(root: &Root, unix_ns: u64) -> Option<PilotStatus> {
    // Such times are in the order of their texts. The clock may have been set back since.
    let from = rfc3339(unix_ns.saturating_sub(FRESH_NS));
    let until = rfc3339(unix_ns.saturating_add(FRESH_NS));
    status(root).filter(|status| (from..=until).contains(&status.written_utc))
}

/// Process of a pilot that runs at this time of the calendar, and may change settings.
pub(crate) fn acting_pid(root: &Root, unix_ns: u64) -> Option<u32> {
    let acting = status_at(root, unix_ns).filter(|status| status.mode == "act");
    acting.map(|status| status.pid)
}

pub(crate) fn memory(root: &Root) -> Option<Memory> {
    read(root, "memory")
}

fn write(root: &Root, kept: &Kept) -> anyhow::Result<()> {
    Ok(knob::keep(root, &serde_json::to_string(kept)?)?)
}

/// The state on disk is no older than this.
const OLDEST: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(crate) struct Keeping {
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
    pub(crate) fn is_due(&self, status: &PilotStatus) -> bool {
        let is_old = self.at.is_none_or(|at| at.elapsed() >= OLDEST);
        let has_as_many = status.vms.len() == self.vms.len();
        let mut both = status.vms.iter().zip(&self.vms);
        is_old || !has_as_many || !both.all(|(vm, kept)| is_same(vm, kept))
    }

    /// Keeps it now. That it cannot be is said once.
    pub(crate) fn keep(&mut self, root: &Root, kept: &Kept) {
        self.at = Some(Instant::now());
        self.vms.clone_from(&kept.status.vms);
        let done = write(root, kept);
        if let (Err(error), false) = (&done, self.has_failed) {
            terminal::say(&format!(
                "warning: the pilot's state was not written: {error:#}"
            ));
        }
        self.has_failed = done.is_err();
    }
}

#[cfg(test)]
#[test]
fn another_layout_of_the_status_loses_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::at(directory.path());
    assert!(memory(&root).is_none());
    let memory_json = serde_json::to_string(&Memory::default()).unwrap();
    let text = format!("{{\"status\": {{\"schema\": 2}}, \"memory\": {memory_json}}}");
    knob::keep(&root, &text).unwrap();
    assert_eq!(status(&root), None);
    assert_eq!(memory(&root), Some(Memory::default()));
}
