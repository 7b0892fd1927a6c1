//! What the pilot keeps on disk: what it says of itself, for `haltwise status`, and what it has to know after a
//! restart.

use haltwise_core::pilot::memory::Memory;
use haltwise_host::knob;
use haltwise_host::root::Root;
use serde::{Deserialize, Serialize};

use super::PilotStatus;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// What it says of itself.
    pub(crate) status: PilotStatus,
    /// What it has to know after a restart.
    pub(crate) memory: Memory,
}

/// What was kept last; `None` if none has run here, or a newer one wrote the file.
pub(crate) fn read(root: &Root) -> Option<Kept> {
    serde_json::from_str(&knob::kept(root).ok()??).ok()
}

/// What the pilot said last.
pub(crate) fn status(root: &Root) -> Option<PilotStatus> {
    read(root).map(|kept| kept.status)
}

/// Keeps this instead.
pub(crate) fn keep(root: &Root, kept: &Kept) -> anyhow::Result<()> {
    Ok(knob::keep(root, &serde_json::to_string(kept)?)?)
}
