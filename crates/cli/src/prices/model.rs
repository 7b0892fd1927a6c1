//! What every replay assumes: whose algorithm, which parameters, which costs.

use haltwise_capture::info::CaptureInfo;
use haltwise_core::replay::Arrivals;
use haltwise_document::figures;

use super::{Known, Source};

figures! {
    /// What figures of a replay rest on, whichever verb prints them.
    pub(crate) struct Model {
        /// The recorded host's name, where kept.
        pub(crate) hostname: Option<String> = Name,
        /// The kernel whose algorithm `kvm` means, and whose parameters are tuned.
        pub(crate) kernel: String = Name,
        /// Its architecture.
        pub(crate) arch: String = Name,
        /// Module parameters that the capture does not contain, taken at that kernel's defaults.
        pub(crate) knobs_assumed: Vec<&'static str> = Words,
        /// CPU time of one block and wake.
        pub(crate) switch_cpu_ns: u64 = Nanos,
        /// Where that comes from: `calibrated`, `given`, `assumed` (half of what the shortest sleeps take to wake)
        /// or `bounded` (that would be more than the 100 us that hardware can need, and is taken as those).
        pub(crate) switch_cpu_source: Source = Word,
        /// How wake events move when a vCPU wakes earlier: `by-source`, `fixed-gap` or `fixed-time`.
        pub(crate) arrivals: Arrivals = Word,
    }
}

/// Reads how wake events move.
pub(crate) fn arrivals(text: &str) -> Result<Arrivals, String> {
    let mut all = Arrivals::ALL.into_iter();
    let found = all.find(|arrivals| arrivals.as_str() == text);
    found.ok_or_else(|| "expected by-source, fixed-gap or fixed-time".to_owned())
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
