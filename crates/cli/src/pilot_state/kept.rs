//! State that the pilot keeps on disk: its reports on itself, for `haltwise status`, and the data it needs after a
//! restart.

use haltwise_capture::info::rfc3339;
use haltwise_core::pilot::memory::Memory;
use haltwise_host::knob;
use haltwise_host::root::Root;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::PilotStatus;

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

pub(crate) fn keep(root: &Root, kept: &Kept) -> anyhow::Result<()> {
    Ok(knob::keep(root, &serde_json::to_string(kept)?)?)
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
