//! Assumptions of every replay: whose algorithm, which parameters, which costs.

use haltwise_capture::info::CaptureInfo;
use haltwise_core::event::WakeSource;
use haltwise_core::replay::Arrivals;
use haltwise_document::figures;

use super::{Known, Source};
use crate::number::nanos;

figures! {
    /// Basis of the figures of a replay, whichever verb prints them.
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
        /// How wake events move when a vCPU wakes earlier: `by-source`, as recorded for each vCPU and wake source.
        pub(crate) arrivals: Arrivals = Word,
        /// By wake source, how soon after its window a halt still ends without sleep: KVM looks for a wake before it
        /// looks at the time, and once more before it sleeps. A source is missing where fewer than sixteen halts ended
        /// so, or where most slept from the start.
        pub(crate) overruns: Vec<HaltOverrun> = List(HaltOverrun::FIGURES),
    }
}

figures! {
    /// How soon after its window a halt that this source wakes still ends without sleep.
    pub(crate) struct HaltOverrun {
        /// The wake source: `timer`, `ipi`, `device`, `other` or `unknown`.
        pub(crate) wake: &'static str = Name,
        /// Threshold for halts that polled: a halt whose wake came up to this time after its window is taken as not
        /// slept, any other as slept; chosen so that the fewest halts are classified wrongly.
        pub(crate) polling_ns: u64 = Nanos,
        /// The same of halts with a window of 0.
        pub(crate) unpolled_ns: u64 = Nanos,
    }
}

fn overruns(known: &Known) -> Vec<HaltOverrun> {
    let of = |wake: WakeSource| {
        let overrun = known.overruns.of(wake);
        HaltOverrun {
            wake: wake.as_str(),
            polling_ns: overrun.polling_ns.into(),
            unpolled_ns: overrun.unpolled_ns.into(),
        }
    };
    let sources = WakeSource::ALL.into_iter();
    sources.map(of).filter(|it| it.polling_ns > 0).collect()
}

fn in_words(overruns: &[HaltOverrun]) -> Option<String> {
    let of = |it: &HaltOverrun| {
        let [polling, unpolled] = [it.polling_ns, it.unpolled_ns].map(nanos);
        format!("{} {polling}, {unpolled} with a window of 0", it.wake)
    };
    let all: Vec<String> = overruns.iter().map(of).collect();
    (!all.is_empty()).then(|| {
        let all = all.join("; ");
        format!("a halt whose wake comes so soon after its window ends without sleep: {all}")
    })
}

impl Model {
    /// Model of a capture, replayed by a kernel's algorithm on an architecture.
    pub(crate) fn new(
        info: &CaptureInfo,
        [kernel, arch]: [String; 2],
        knobs_assumed: Vec<&'static str>,
        known: &Known,
    ) -> Self {
        Self {
            hostname: info.host.hostname.clone(),
            kernel,
            arch,
            knobs_assumed,
            switch_cpu_ns: known.switch_cpu_ns,
            switch_cpu_source: known.source,
            arrivals: Arrivals::BySource,
            overruns: overruns(known),
        }
    }

    /// [`Model::overruns`] in words; `None` where nothing shows any.
    pub(crate) fn overrun(&self) -> Option<String> {
        in_words(&self.overruns)
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

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn overruns_are_said_by_wake_source_where_there_are_any() {
        assert_eq!(in_words(&[]), None);
        let of = |wake, polling_ns| HaltOverrun {
            wake,
            polling_ns,
            unpolled_ns: 512,
        };
        let said = in_words(&[of("timer", 11_264), of("ipi", 512)]);
        let expected = "a halt whose wake comes so soon after its window ends without sleep: timer 11.3 us, 512 ns with \
                        a window of 0; ipi 512 ns, 512 ns with a window of 0";
        assert_eq!(said.as_deref(), Some(expected));
    }
}
