//! What every replay assumes: whose algorithm, which parameters, which costs.

use haltwise_capture::info::CaptureInfo;
use haltwise_core::replay::Arrivals;
use serde::Serialize;

use super::{Known, Source};

/// What figures of a replay rest on, whichever verb prints them.
#[derive(Debug, Serialize)]
pub(crate) struct Model {
    /// The recorded host's name, where kept.
    pub(crate) hostname: Option<String>,
    /// The kernel whose algorithm `kvm` means, and whose parameters are tuned.
    pub(crate) kernel: String,
    /// Its architecture.
    pub(crate) arch: String,
    /// Parameters that the capture does not contain, taken at that kernel's defaults.
    pub(crate) knobs_assumed: Vec<&'static str>,
    /// CPU time of one block and wake.
    pub(crate) switch_cpu_ns: u64,
    /// Where that comes from.
    pub(crate) switch_cpu_source: Source,
    /// Whether waking earlier makes the next gap longer.
    pub(crate) arrivals: Arrivals,
}

impl Model {
    /// Of a capture, replayed by a kernel's algorithm on an architecture.
    pub(crate) fn new(
        info: &CaptureInfo,
        [kernel, arch]: [String; 2],
        knobs_assumed: Vec<&'static str>,
        known: &Known,
        arrivals: Arrivals,
    ) -> Self {
        Self {
            hostname: info.host.hostname.clone(),
            kernel,
            arch,
            knobs_assumed,
            switch_cpu_ns: known.switch_cpu_ns,
            switch_cpu_source: known.source,
            arrivals,
        }
    }

    /// The kernel's algorithm in words, with the parameters that were assumed.
    pub(crate) fn algorithm(&self) -> String {
        let mut text = format!("KVM of Linux {} on {}", self.kernel, self.arch);
        if self.kernel.contains('+') {
            text.push_str(", with backports (see `haltwise verify`)");
        }
        if !self.knobs_assumed.is_empty() {
            text.push_str("; not in the capture, that kernel's defaults assumed: ");
            text.push_str(&self.knobs_assumed.join(", "));
        }
        text
    }
}
