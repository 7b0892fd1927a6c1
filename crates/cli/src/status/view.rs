//! Status as data: the JSON of `--json`.

use haltwise_host::knob::effect::Watched;
use serde::Serialize;

use crate::knob::{ChangeView, CutOffView};
use crate::pilot_state::PilotStatus;

#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) schema: u32,
    pub(crate) kernel: String,
    pub(crate) knobs: Vec<KnobView>,
    /// Settings that haltwise made, by the apply that set them last, newest first.
    pub(crate) steps: Vec<StepView>,
    pub(crate) persisted: Vec<Persisted>,
    /// Remarks in words: settings without effect, likely slips, and changes by the next boot.
    pub(crate) remarks: Vec<String>,
    /// Settings of haltwise that were modified externally since, in words.
    pub(crate) theirs: Vec<String>,
    pub(crate) vms: Vec<Watched>,
    pub(crate) vms_unwatched: Option<String>,
    pub(crate) journal: Journal,
    /// Last status of `haltwise pilot`; `null` if none has run.
    pub(crate) pilot: Option<PilotStatus>,
}

#[derive(Debug, Serialize)]
pub(crate) struct KnobView {
    pub(crate) name: &'static str,
    /// `null` where this kernel has none.
    pub(crate) value: Option<u32>,
    /// Default of an upstream kernel of this version; `null` where the default is not known.
    pub(crate) default: Option<u32>,
    /// `haltwise`, `default` (as the kernel sets it), `other`, or `unknown` without the journal.
    pub(crate) set_by: &'static str,
    /// The file, or the kernel's command line, that has this value, where haltwise did not set it.
    pub(crate) origin: Option<String>,
    /// Number of the apply, if it was haltwise.
    pub(crate) step: Option<u64>,
}

/// Settings of an apply that no later apply has replaced.
#[derive(Debug, Serialize)]
pub(crate) struct StepView {
    pub(crate) step: u64,
    /// RFC 3339, UTC.
    pub(crate) time: String,
    pub(crate) who: String,
    /// Values before the first apply, and the values that were set.
    pub(crate) turns: Vec<ChangeView>,
    pub(crate) unknown: Vec<UnknownView>,
    pub(crate) gone: Vec<String>,
    pub(crate) persists: bool,
    pub(crate) undo: String,
}

/// A setting whose value a VMM, or the agent in a guest, does not report.
#[derive(Debug, Serialize)]
pub(crate) struct UnknownView {
    pub(crate) name: String,
    pub(crate) old: Option<String>,
    pub(crate) set: Option<String>,
    pub(crate) why: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Persisted {
    pub(crate) name: &'static str,
    pub(crate) value: u32,
}

#[derive(Debug, Serialize)]
pub(crate) struct Journal {
    pub(crate) path: String,
    /// Why nothing of it is known: then neither is who set what, nor what can be undone.
    pub(crate) unknown: Option<String>,
    /// An apply or undo that was cut off, and what became of it.
    pub(crate) open: Option<CutOffView>,
}
