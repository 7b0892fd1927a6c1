//! Basis of a recommendation: `tune` ends with it, and the page of `report --html` says the same.

use haltwise_capture::info::CaptureInfo;
use haltwise_core::replay::{Doubts, Sums};
use haltwise_core::stats::total;
use haltwise_core::tune::Inputs;
use haltwise_core::tune::final_round::Finalist;
use haltwise_document::figures;

use super::view::{TuneBasis, TuneResult};
use crate::figures::DOUBTS;
use crate::number::{nanos, percent, share};
use crate::prices::model::Model;
use crate::prices::words::{self, of_halts};
use crate::words::plural;

figures! {
    /// Halts on which a search rests: of a guest, its idle periods.
    pub(crate) struct SearchBasis {
        #[serde(flatten)]
        pub(crate) model: Model = Flat(Model::FIGURES),
        /// Halts that were evaluated; idle periods of a guest.
        pub(crate) halts: u64 = Count,
        /// Those of them of the validation half.
        pub(crate) judged_halts: u64 = Count,
        /// Time of the validation half.
        pub(crate) judged_ns: u64 = Nanos,
        /// Halts that slept, as recorded; periods of a guest that entered HLT.
        pub(crate) blocks_recorded: u64 = Count,
        /// The same as the replay of the setting in force has them: the nearer, the better.
        pub(crate) blocks_replayed: u64 = Count,
        /// Validated halts on which an assumption rests, under the setting in force.
        pub(crate) doubts: Doubts = Record(DOUBTS),
        /// Halts left out by stretches of time, because there were too many to keep.
        pub(crate) skipped: u64 = Count,
        /// Events lost while recording.
        pub(crate) lost: u64 = Count,
        /// The capture is cut or damaged.
        pub(crate) partial: bool = Flag,
    }
}

impl SearchBasis {
    pub(super) fn of_search<S>(
        info: &CaptureInfo,
        model: Model,
        inputs: &Inputs,
        in_force: &Finalist<S>,
        partial: bool,
    ) -> Self {
        let recorded = inputs.seats.iter().map(|seated| seated.recorded.blocks);
        Self {
            model,
            halts: inputs.halts(),
            judged_halts: in_force.judged().halts,
            judged_ns: inputs.judged_wall.span_ns,
            blocks_recorded: recorded.sum(),
            blocks_replayed: Sums::total(&in_force.parts).blocks,
            doubts: Doubts::default(),
            skipped: inputs.skipped,
            lost: total(info.lost.values()),
            partial,
        }
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.partial || self.lost > 0
    }

    pub(crate) fn cost(&self, lambda: f64) -> String {
        words::cost(
            self.model.switch_cpu_ns,
            self.model.switch_cpu_source,
            lambda,
        )
    }

    /// How many halts were evaluated, and how the replay of the setting in force compares with what was recorded.
    pub(crate) fn evaluated(&self, settings: usize, sleep: &str) -> [Line; 3] {
        let of = |blocks: u64| percent(blocks as f64, self.halts as f64);
        let halts = words::evaluated(self.halts, self.judged_halts, self.judged_ns, settings);
        let replay = format!(
            "with the current setting {} of the halts {sleep} in the replay, {} in the recording",
            of(self.blocks_replayed),
            of(self.blocks_recorded),
        );
        [
            ("halts", halts),
            ("replay", replay),
            ("arrivals", words::ARRIVALS.to_owned()),
        ]
    }

    pub(crate) fn missing(&self) -> Vec<Line> {
        let mut said = left_out([
            (
                "skipped",
                self.skipped,
                "halt",
                "left out in whole time ranges, because there are too many",
            ),
            (
                "lost",
                self.lost,
                "event",
                "lost while recording; their halts are missing",
            ),
        ]);
        if self.partial {
            said.push(("partial", words::PARTIAL.to_owned()));
        }
        said
    }
}

/// A word, and what is said of it; what is in backquotes is code.
pub(crate) type Line = (&'static str, String);

pub(crate) fn rests(view: &TuneResult) -> Vec<Line> {
    let basis = &view.basis;
    let mut cost = basis.search.cost(view.recommendation.goal.lambda);
    if let Some([low_ns, high_ns]) = basis.switch_cpu_ends_ns.filter(|[low, high]| low < high) {
        let ends = [nanos(low_ns), nanos(high_ns)].join(" to ");
        cost.push_str("; confidence intervals cover a sleep of ");
        cost.push_str(&ends);
        cost.push_str(", as far as that may be off");
    }
    let model = &basis.search.model;
    let mut said = vec![("cost", cost)];
    if let Some(played) = &view.played {
        said.extend(basis.search.evaluated(played.looked_at, "sleep"));
        said.extend(model.overrun().map(|overrun| ("overrun", overrun)));
        if let Some(idle) = basis.idle_cpu_percent {
            let text = format!(
                "the host had {} of a CPU idle; settings that poll more than that were not considered",
                share(idle / 100.0)
            );
            said.push(("spare", text));
        }
    }
    said.push(("algorithm", model.algorithm()));
    said.extend(assumed(view));
    said.extend(not_reached(basis));
    said.extend(basis.search.missing());
    said
}

/// Assumptions about the validated halts. Sleeps are those of the best setting found, because its figures depend
/// on them.
fn assumed(view: &TuneResult) -> Vec<Line> {
    let basis = &view.basis;
    let doubts = Doubts {
        latency_guessed: basis.latency_guessed,
        latency_thin: basis.latency_thin,
        latency_calibrated: basis.latency_calibrated,
        ..basis.search.doubts
    };
    let under = ["the best setting found"; 3];
    of_halts(
        &doubts,
        basis.search.judged_halts,
        "the validated halts",
        under,
    )
}

fn not_reached(basis: &TuneBasis) -> Vec<Line> {
    left_out([
        (
            "veto",
            basis.vetoed_vcpus,
            "vCPU",
            "left out: the guest disabled host polling (MSR_KVM_POLL_CONTROL), no setting applies to it",
        ),
        (
            "own ceiling",
            basis.own_ceiling_vcpus,
            "vCPU",
            "of VMs with their own ceiling, to which halt_poll_ns does not apply",
        ),
        (
            "out of order",
            basis.out_of_order,
            "halt",
            "left out because their timestamps go backwards",
        ),
    ])
}

/// A line for each number that is not 0: a word, the number, what is counted, why.
fn left_out<const N: usize>(all: [(&'static str, u64, &str, &str); N]) -> Vec<Line> {
    let some = all.into_iter().filter(|(_, n, ..)| *n > 0);
    let said = some.map(|(what, n, one, text)| (what, format!("{} {text}", plural(n, one))));
    said.collect()
}
