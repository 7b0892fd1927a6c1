//! What is said of two captures, as data. This is the JSON of `--json`: see `docs/diff-json.md`.

use haltwise_core::diff::figure::{Figure, Unit};
use haltwise_core::diff::judge::Verdict;
use haltwise_core::exit::{Isa, Kind};
use haltwise_core::recording::{Missing, Mode, Rung};
use haltwise_core::tune::interval::Interval;
use serde::Serialize;

/// The whole page.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    /// Version of this layout.
    pub(crate) schema: u32,
    pub(crate) a: CaptureView,
    pub(crate) b: CaptureView,
    /// Differences in setup.
    pub(crate) circumstances: Vec<CircumstanceView>,
    /// VMs that only one of them has, by name.
    pub(crate) only_a: Vec<String>,
    pub(crate) only_b: Vec<String>,
    /// Figures that were compared, among which the correction chose.
    pub(crate) compared: usize,
    /// Of these, how many differ.
    pub(crate) different: usize,
    /// The largest difference first, what may be chance after what is none.
    pub(crate) comparisons: Vec<ComparisonView>,
}

/// A capture.
#[derive(Debug, Serialize)]
pub(crate) struct CaptureView {
    pub(crate) path: String,
    pub(crate) host: String,
    pub(crate) kernel: String,
    pub(crate) rung: Rung,
    pub(crate) mode: Mode,
    pub(crate) started_utc: Option<String>,
    pub(crate) duration_ns: u64,
    /// Length of a block of halts.
    pub(crate) block_ns: u64,
    pub(crate) vms: usize,
    pub(crate) halts: u64,
    /// Whether it holds exits.
    pub(crate) exits: bool,
    pub(crate) cut: bool,
    /// Whether a part cannot be read.
    pub(crate) damaged: bool,
    pub(crate) lost: u64,
    pub(crate) missing: Vec<Missing>,
    pub(crate) notes: Vec<String>,
}

/// Something that differs and is no figure.
#[derive(Debug, Serialize)]
pub(crate) struct CircumstanceView {
    pub(crate) what: String,
    pub(crate) a: String,
    pub(crate) b: String,
}

/// A figure of somebody.
#[derive(Debug, Serialize)]
pub(crate) struct ComparisonView {
    /// The VM in A; `null` for the host.
    pub(crate) vm: Option<String>,
    /// The same VM in B.
    pub(crate) vm_b: Option<String>,
    pub(crate) figure: Figure,
    /// What the exits were, if it is a figure of exits.
    pub(crate) cause: Option<CauseView>,
    pub(crate) unit: Unit,
    pub(crate) verdict: Verdict,
    pub(crate) a: Option<EstimateView>,
    pub(crate) b: Option<EstimateView>,
    /// B less A.
    pub(crate) difference: Option<Interval>,
    /// B as a multiple of A.
    pub(crate) ratio: Option<f64>,
    pub(crate) size: f64,
    pub(crate) p: Option<f64>,
    pub(crate) p_adjusted: Option<f64>,
}

/// What exits were.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CauseView {
    pub(crate) kind: Kind,
    pub(crate) isa: Isa,
    pub(crate) reason: Option<u32>,
    pub(crate) name: String,
}

/// A figure of one capture.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct EstimateView {
    pub(crate) estimate: f64,
    pub(crate) standard_error: f64,
    pub(crate) blocks: usize,
    pub(crate) worth_blocks: f64,
}
