//! What doctor says, as data: the JSON of `--json`.

use haltwise_core::event::CeilingSource;
use haltwise_core::identity::Identity;
use haltwise_core::recording::Rung;
use serde::Serialize;

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    pub(crate) schema: u32,
    pub(crate) kernel: String,
    /// The best rung that this host allows.
    pub(crate) best_rung: Option<Rung>,
    pub(crate) rungs: Vec<RungView>,
    /// What the process may do, one by one.
    pub(crate) capabilities: Vec<CapabilityView>,
    pub(crate) knobs: Vec<KnobView>,
    pub(crate) vms: Vec<VmView>,
    /// Why windows, ceilings and vetoes of running VMs could not be read.
    pub(crate) vms_unread: Option<String>,
    /// Processes that we may not look into.
    pub(crate) processes_denied: usize,
    pub(crate) findings: Vec<FindingView>,
}

/// A rung.
#[derive(Debug, Serialize)]
pub(crate) struct RungView {
    pub(crate) rung: Rung,
    /// Why it cannot be used here; `null` if it can.
    pub(crate) refused: Option<String>,
    /// The refusal is about rights, not about the kernel.
    pub(crate) denied: bool,
}

/// A capability.
#[derive(Debug, Serialize)]
pub(crate) struct CapabilityView {
    pub(crate) name: &'static str,
    pub(crate) held: bool,
    /// Which sources, modes and names a recording has by it.
    pub(crate) gives: &'static str,
}

/// A setting.
#[derive(Debug, Serialize)]
pub(crate) struct KnobView {
    pub(crate) name: String,
    pub(crate) value: String,
    /// Whom it binds.
    pub(crate) binds: &'static str,
}

/// A VM that runs now.
#[derive(Debug, Serialize)]
pub(crate) struct VmView {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Identity::is_empty")]
    pub(crate) identity: Identity,
    pub(crate) vmm: &'static str,
    pub(crate) pid: u32,
    pub(crate) vcpus: usize,
    /// Ceiling in force, and who set it.
    pub(crate) ceiling_ns: Option<u32>,
    pub(crate) ceiling_source: CeilingSource,
    /// Smallest and largest window of its vCPUs now.
    pub(crate) window_ns: Option<(u32, u32)>,
    /// vCPUs for which the guest switched host polling off.
    pub(crate) vetoed_vcpus: Vec<u32>,
    /// Why its halts cannot be seen; `null` if nothing speaks against it.
    pub(crate) not_observable: Option<String>,
    /// Whether any of its vCPUs runs or is idle in the kernel; `null` if that cannot be told.
    pub(crate) running: Option<bool>,
}

/// Something to know.
#[derive(Debug, Serialize)]
pub(crate) struct FindingView {
    /// `problem`, `warning`, `note` or `good`.
    pub(crate) level: &'static str,
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) remedy: Option<String>,
}
