//! One proof, as a line of the ledger.

use haltwise_capture::info::Clock;
use haltwise_core::prove::compare::{Prediction, Verdict};
use haltwise_core::prove::figure::Unit;
use haltwise_core::recording::Side;
use haltwise_core::stats::FEWEST;
use haltwise_document::figures;
use haltwise_host::clock;
use serde::Deserialize;

use crate::proof::{self, PREDICTION, Proof, ProvenSetting};

figures! {
    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct Entry {
        /// Version of this shape: 1, or 2 of a guest, which earlier versions leave alone.
        pub(crate) schema: u32 = Number,
        /// Side that was measured: `host` or `guest`.
        #[serde(default)]
        pub(crate) side: Side = Word,
        /// When it was added.
        pub(crate) utc: String = Name,
        /// Where it was measured.
        pub(crate) hostname: String = Name,
        /// On which kernel.
        pub(crate) kernel: String = Name,
        /// The first setting, as in [a comparison's JSON](prove-json.md).
        pub(crate) a: ProvenSetting = Record(ProvenSetting::FIGURES),
        /// The second setting.
        pub(crate) b: ProvenSetting = Record(ProvenSetting::FIGURES),
        /// How they were put in force.
        pub(crate) means: String = Name,
        /// Command that ran.
        pub(crate) command: Vec<String> = Words,
        /// Share of the measured time in which some task waited for a CPU.
        pub(crate) cpu_pressure: Option<f64> = Share,
        /// Rounds that it rests on.
        pub(crate) rounds: u64 = Count,
        /// Events lost.
        pub(crate) lost: u64 = Count,
        /// `says`, and with it `seen_from`, `noise` or `needed`.
        pub(crate) verdict: Verdict = Object,
        /// One for each figure of each setting.
        pub(crate) predictions: Vec<Kept> = List(Kept::FIGURES),
    }

    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct Kept {
        /// Which setting was predicted, from blocks under the other: `a` or `b`.
        pub(crate) of: String = Word,
        /// Unit that the figure is counted in.
        pub(crate) unit: Unit = Word,
        /// Up to so much, A may differ from itself.
        pub(crate) noise: f64 = Real,
        /// The prediction's load had two steady states.
        pub(crate) bistable: bool = Flag,
        #[serde(flatten)]
        pub(crate) prediction: Prediction = Flat(PREDICTION),
    }
}

impl Kept {
    /// Width of the interval that the measured difference had to lie in: the predicted one, and the noise
    /// on both sides.
    pub(crate) fn width(&self) -> f64 {
        let effect = &self.prediction.effect;
        effect.high - effect.low + 2.0 * self.noise
    }

    /// Within the interval only because the noise widened it.
    pub(crate) fn is_within_by_noise(&self) -> bool {
        let effect = &self.prediction.effect;
        let predicted = effect.low..=effect.high;
        self.prediction.within && !predicted.contains(&self.prediction.measured_effect.estimate)
    }
}

impl Entry {
    /// Whether it tests predictions: it decided, and no others wanted the CPUs.
    pub(crate) fn is_judged(&self) -> bool {
        self.verdict.is_conclusive() && !proof::is_pressed(self.cpu_pressure)
    }

    /// Entry of a result. `None` if the result has too few rounds, or if nothing was predicted.
    pub(crate) fn of(view: &Proof) -> Option<Self> {
        let enough = usize::try_from(view.design.rounds).is_ok_and(|rounds| rounds >= FEWEST);
        let told = &view.predictions;
        let kept = |of: &str, predictions: &[Prediction], bistable: u64| -> Vec<Kept> {
            let known = predictions.iter().filter_map(|prediction| {
                let mut figures = view.figures.iter();
                let figure =
                    figures.find(|figure| figure.comparison.figure == prediction.figure)?;
                Some(Kept {
                    of: of.to_owned(),
                    unit: figure.unit,
                    noise: figure.comparison.noise.reach(),
                    bistable: bistable > 0,
                    prediction: *prediction,
                })
            });
            known.collect()
        };
        let mut predictions = kept("b", &told.of_b, told.bistable_b);
        predictions.extend(kept("a", &told.of_a, told.bistable_a));
        (enough && !predictions.is_empty()).then(|| Self {
            schema: proof::schema(view.side),
            side: view.side,
            utc: Clock::new(0, clock::wall_ns()).start_utc,
            hostname: view.host.hostname.clone(),
            kernel: view.host.kernel.clone(),
            a: view.a.clone(),
            b: view.b.clone(),
            means: view.means.clone(),
            command: view.command.clone(),
            cpu_pressure: view.host.cpu_pressure,
            rounds: view.design.rounds,
            lost: view.lost,
            verdict: view.verdict,
            predictions,
        })
    }
}
