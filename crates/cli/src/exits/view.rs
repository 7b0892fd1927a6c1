//! What is said of exits, as data. This is the JSON of `--json`: see `docs/exits-json.md`.
//!
//! Times are nanoseconds. `null` means that the recording cannot tell; it never means zero.

use haltwise_core::account::Spread;
use haltwise_core::account::parts::Parts;
use haltwise_core::exit::{Isa, Kind, SubKey};
use haltwise_core::recording::{Missing, Rung};
use serde::Serialize;

/// The whole page.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    /// Version of this layout.
    pub(crate) schema: u32,
    pub(crate) recording: RecordingView,
    pub(crate) total: TotalView,
    /// What halted time the exits of halting vCPUs hold.
    pub(crate) halted: Parts,
    /// Exits by reason, what cost the host most first.
    pub(crate) reasons: Vec<ReasonView>,
    /// Returns of `KVM_RUN` to the VMM, by reason.
    pub(crate) userspace: Vec<ReasonView>,
    /// What exits were about.
    pub(crate) subs: Vec<ReasonView>,
    /// By VM, vCPU or second, if it was asked for.
    pub(crate) groups: Vec<GroupView>,
}

/// How the facts were obtained, and what is missing from them.
#[derive(Debug, Serialize)]
pub(crate) struct RecordingView {
    pub(crate) rung: Rung,
    pub(crate) host: String,
    pub(crate) kernel: String,
    pub(crate) isa: Option<Isa>,
    pub(crate) vms: usize,
    pub(crate) duration_ns: u64,
    /// What was told of exits beside their reasons.
    pub(crate) sub_keys: Vec<SubKey>,
    /// Filters of the recording.
    pub(crate) only_vcpus: Vec<u32>,
    pub(crate) only_reasons: Vec<String>,
    pub(crate) cut: bool,
    pub(crate) lost: u64,
    pub(crate) missing: Vec<Missing>,
    pub(crate) notes: Vec<String>,
}

/// Everything together.
#[derive(Debug, Serialize)]
pub(crate) struct TotalView {
    pub(crate) exits: u64,
    /// Of these, by which a guest halted.
    pub(crate) halt_exits: u64,
    /// Exits whose time is not known.
    pub(crate) untimed: u64,
    /// What all exits cost the host: their time less the halts' sleep.
    pub(crate) host_ns: u64,
    /// Of the time of exits other than halts: in the kernel, and in the VMM.
    pub(crate) kernel_ns: u64,
    pub(crate) user_ns: u64,
    pub(crate) entries: u64,
    pub(crate) lone_entries: u64,
    pub(crate) userspace_exits: u64,
    pub(crate) injections: u64,
    pub(crate) emulations: u64,
    /// Exits that found no room in the recorder's table.
    pub(crate) other: u64,
}

/// One reason, or one sub-key.
#[derive(Debug, Serialize)]
pub(crate) struct ReasonView {
    pub(crate) kind: Kind,
    pub(crate) isa: Isa,
    /// Its number.
    pub(crate) reason: Option<u32>,
    pub(crate) name: String,
    pub(crate) sub: Option<u64>,
    pub(crate) sub_name: Option<String>,
    pub(crate) count: u64,
    pub(crate) per_second: f64,
    pub(crate) untimed: u64,
    /// Whether the guest halts by it.
    pub(crate) is_halt: bool,
    /// What it cost the host: its time less the halts' sleep.
    pub(crate) host_ns: u64,
    /// Its share of what all of its table cost the host; `null` where nothing has a time.
    pub(crate) share: Option<f64>,
    pub(crate) time_ns: u64,
    pub(crate) kernel_ns: u64,
    pub(crate) user_ns: u64,
    /// `null` of halts, whose length says nothing, and where no time is known.
    pub(crate) spread_ns: Option<Spread>,
}

/// One VM, vCPU or second.
#[derive(Debug, Serialize)]
pub(crate) struct GroupView {
    pub(crate) vm: Option<u32>,
    pub(crate) vm_name: Option<String>,
    pub(crate) vcpu: Option<u32>,
    pub(crate) second: Option<u64>,
    /// Exits but those by which the guest halted, and their times.
    pub(crate) exits: u64,
    pub(crate) halt_exits: u64,
    pub(crate) untimed: u64,
    pub(crate) time_ns: u64,
    pub(crate) kernel_ns: u64,
    pub(crate) user_ns: u64,
    pub(crate) spread_ns: Option<Spread>,
    pub(crate) entries: u64,
    pub(crate) userspace_exits: u64,
    pub(crate) injections: u64,
    pub(crate) emulations: u64,
}
