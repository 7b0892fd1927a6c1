//! What is said of samples, as data. This is the JSON of `--json`: see `docs/profile-json.md`.
//!
//! `null` means that the recording cannot tell; it never means zero.

use haltwise_core::profile::{Event, Space};
use haltwise_core::recording::{Missing, Rung};
use serde::Serialize;

/// The whole page.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    /// Version of this layout.
    pub(crate) schema: u32,
    pub(crate) recording: RecordingView,
    /// What the figures are samples of.
    pub(crate) event: Event,
    /// What weights are counted in.
    pub(crate) unit: &'static str,
    /// All samples that the page is about.
    pub(crate) total: TotalView,
    /// Guest, kernel, VMM.
    pub(crate) sides: Vec<Part>,
    /// The same by area.
    pub(crate) areas: Vec<Part>,
    /// By the exit that was being handled.
    pub(crate) exits: Vec<ExitView>,
    /// The hottest symbols first.
    pub(crate) symbols: Vec<SymbolView>,
    /// By what was asked for; by VM if nothing was.
    pub(crate) groups: Vec<GroupView>,
    /// The other events sampled, of the same threads.
    pub(crate) beside: Vec<BesideView>,
    /// Stacks of VMMs that end after one frame.
    pub(crate) shallow: Vec<ShallowView>,
}

/// How the facts were obtained, and what is missing from them.
#[derive(Debug, Serialize)]
pub(crate) struct RecordingView {
    pub(crate) rung: Rung,
    pub(crate) host: String,
    pub(crate) kernel: String,
    pub(crate) vms: usize,
    pub(crate) duration_ns: u64,
    /// Samples a second that were asked for.
    pub(crate) hz: u32,
    pub(crate) events: Vec<Event>,
    /// Whether exits were told with samples.
    pub(crate) exits_told: bool,
    pub(crate) cut: bool,
    pub(crate) lost: u64,
    pub(crate) missing: Vec<Missing>,
    pub(crate) notes: Vec<String>,
}

/// Everything together.
#[derive(Debug, Serialize)]
pub(crate) struct TotalView {
    pub(crate) samples: u64,
    pub(crate) weight: u64,
    /// How far the weight may be off by chance, of 1, in 95 of 100 recordings.
    pub(crate) scatter: f64,
}

/// A part of the samples.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) samples: u64,
    pub(crate) weight: u64,
    /// Its share of the whole, and between which shares that lies in 95 of 100 recordings; `null`
    /// where the whole has no samples.
    pub(crate) share: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
}

/// The samples of one exit reason.
#[derive(Debug, Serialize)]
pub(crate) struct ExitView {
    #[serde(flatten)]
    pub(crate) part: Part,
    /// How it is known: by `kvm_exit`, by a function on the `stack`; `null` where there is no exit.
    pub(crate) by: Option<&'static str>,
    /// Its samples by area, shares of its own.
    pub(crate) areas: Vec<Part>,
    /// The symbols that its samples hit most, shares of its own.
    pub(crate) symbols: Vec<Part>,
}

/// A symbol.
#[derive(Debug, Serialize)]
pub(crate) struct SymbolView {
    pub(crate) module: String,
    /// Whose code; `null` of a guest.
    pub(crate) space: Option<Space>,
    /// What hit it.
    pub(crate) own: Part,
    /// What hit it or what it called.
    pub(crate) all: Part,
}

/// One VM, vCPU, thread or module.
#[derive(Debug, Serialize)]
pub(crate) struct GroupView {
    pub(crate) vm: Option<String>,
    pub(crate) vcpu: Option<u32>,
    pub(crate) tid: Option<u32>,
    #[serde(flatten)]
    pub(crate) part: Part,
    /// Of its own weight: in the guest, in the kernel, in the VMM.
    pub(crate) guest: u64,
    pub(crate) in_kernel: u64,
    pub(crate) in_vmm: u64,
}

/// Another event.
#[derive(Debug, Serialize)]
pub(crate) struct BesideView {
    pub(crate) event: Event,
    pub(crate) unit: &'static str,
    pub(crate) samples: u64,
    pub(crate) weight: u64,
}

/// A VM whose VMM's stacks say little.
#[derive(Debug, Serialize)]
pub(crate) struct ShallowView {
    pub(crate) vm: String,
    /// Samples with a stack of user space.
    pub(crate) samples: u64,
    /// Of these, those where it ends after one frame or leads to no code.
    pub(crate) shallow: u64,
}
