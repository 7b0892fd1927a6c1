//! What status says, as data: the JSON of `--json`.

use serde::Serialize;

use crate::knob::view::{SettledView, TurnView};
use crate::knob::watching::VmView;

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) schema: u32,
    pub(crate) kernel: String,
    pub(crate) knobs: Vec<KnobView>,
    /// Steps in force, newest first.
    pub(crate) steps: Vec<StepView>,
    /// What our files set at boot.
    pub(crate) persisted: Vec<Persisted>,
    /// What we had set and somebody else has since, in words.
    pub(crate) theirs: Vec<String>,
    pub(crate) vms: Vec<VmView>,
    /// Why VMs were not looked at.
    pub(crate) vms_unwatched: Option<String>,
    pub(crate) journal: Journal,
}

/// A parameter.
#[derive(Debug, Serialize)]
pub(crate) struct KnobView {
    pub(crate) name: &'static str,
    /// `null` where this kernel has none.
    pub(crate) value: Option<u32>,
    /// What an upstream kernel of this version sets; `null` where that is not known.
    pub(crate) default: Option<u32>,
    /// `haltwise`, `default` (as the kernel sets it), `other`, or `unknown` without the journal.
    pub(crate) set_by: &'static str,
    /// The step, if it was us.
    pub(crate) step: Option<u64>,
}

/// A step in force.
#[derive(Debug, Serialize)]
pub(crate) struct StepView {
    pub(crate) step: u64,
    /// RFC 3339, UTC.
    pub(crate) time: String,
    pub(crate) who: String,
    /// What still counts of it.
    pub(crate) turns: Vec<TurnView>,
    /// What a boot, or somebody else, has taken back.
    pub(crate) gone: Vec<String>,
    /// It outlasts a boot.
    pub(crate) persists: bool,
    /// The command that takes it back.
    pub(crate) undo: String,
}

/// A value set at boot.
#[derive(Debug, Serialize)]
pub(crate) struct Persisted {
    pub(crate) name: &'static str,
    pub(crate) value: u32,
}

/// The journal.
#[derive(Debug, Serialize)]
pub(crate) struct Journal {
    pub(crate) path: String,
    pub(crate) entries: Option<usize>,
    /// Why nothing of it is known: then neither is who set what, nor what can be undone.
    pub(crate) unknown: Option<String>,
    /// Length of a last line that was cut; the next change takes it away.
    pub(crate) torn_bytes: u64,
    /// A step without an end; the next change settles it so.
    pub(crate) open: Option<SettledView>,
}
