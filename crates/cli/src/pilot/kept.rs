//! What the pilot keeps on disk: what it says of itself, for `haltwise status`, and what it has to know after a
//! restart.

use haltwise_host::knob;
use haltwise_host::root::Root;
use serde::{Deserialize, Serialize};

use super::status::PilotStatus;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// What it says of itself.
    pub(crate) status: PilotStatus,
}

/// What the pilot said last; `None` if none has run here, or a newer one wrote the file.
pub(crate) fn status(root: &Root) -> Option<PilotStatus> {
    let text = knob::kept(root).ok()??;
    serde_json::from_str::<Kept>(&text)
        .ok()
        .map(|kept| kept.status)
}
