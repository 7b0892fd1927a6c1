//! The result of a proof, which `prove` makes, `ledger` keeps and the page of `report --html` shows: the JSON, and
//! what `--proof` reads back.
//!
//! [`figure`] words its figures, [`ledger`] is the file in which predictions and outcomes are kept.

pub(crate) mod figure;
pub(crate) mod ledger;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, anyhow};
use haltwise_capture::files;
use haltwise_core::explain::HABIT;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::prove::compare::{Block, Prediction};
use haltwise_core::prove::compare::{Comparison, Verdict};
use haltwise_core::prove::figure::{Figure, Unit};
use haltwise_core::recording::Side;
use haltwise_core::stats::ranks::RankInterval;
use haltwise_document::figures;
use serde::Deserialize;

use crate::exit::{Exit, Failure};
use crate::figures::PolledBar;
use crate::prices::Source;
use crate::prices::price::Price;

const SCHEMA: u32 = 1;
const SCHEMA_OF_GUEST: u32 = 2;

pub(crate) fn schema(side: Side) -> u32 {
    match side {
        Side::Host => SCHEMA,
        Side::Guest => SCHEMA_OF_GUEST,
    }
}

/// Whether others wanted the CPUs for so much of the time that what was measured is theirs, too.
pub(crate) fn is_pressed(cpu_pressure: Option<f64>) -> bool {
    cpu_pressure.is_some_and(|share| share >= HABIT)
}

pub(crate) fn is_read(schema: u64) -> bool {
    [SCHEMA, SCHEMA_OF_GUEST].contains(&u32::try_from(schema).unwrap_or(0))
}

pub(crate) const ABOUT: &[&str] = &[
    "`haltwise report --html FILE --proof FILE` shows a result that was saved.",
    "Times are whole nanoseconds where their names end in `_ns`. Figures are in the `unit` beside them. What ends in \
     `_percent` is in %.",
    "`null`, and a figure that is not there, mean that it is not known. They never mean zero.",
    "Verdicts: `better` or `worse`, B's halts cost less, or more; `no-difference`; `too-noisy`; `too-few-rounds`. B is \
     better or worse if the interval of the difference excludes zero **and** the difference is larger than the \
     control's interval reaches. Else, if the control would have shown `detect_percent`, there is no difference; else \
     the host was too noisy.",
    "Figures: `cost` of a halt; `poll-cpu` and `vcpu-cpu` in % of a CPU for all vCPUs together; `latency-mean`, \
     `latency-p50`, `latency-p99` over all halts, 0 for those that did not wait; `halts` a second; `successful-polls` \
     and `blocks` in % of halts; `awake` (C0 residency of the host's CPUs), `cycles` of all CPUs a second, `power` of \
     the packages, `metric` of the command.",
    "Of a guest also `hlt-exits`, `ipis` (sent by the CPU that ended a halt), `ipis-spared` (polls that another CPU \
     ended) and `context-switches`, each for one halt; `blocks` are those that entered HLT, and there is no `vcpu-cpu`.",
];

figures! {
    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct Proof {
        /// Version of this layout: 1, or 2 of a guest, which earlier versions cannot read.
        pub(crate) schema: u32 = Number,
        /// Side that was measured: `host`, halts of its VMs, or `guest`, idle periods of the machine's own CPUs.
        pub(crate) side: Side = Word,
        /// The first setting: what is measured against.
        pub(crate) a: ProvenSetting = Record(ProvenSetting::FIGURES),
        /// The second.
        pub(crate) b: ProvenSetting = Record(ProvenSetting::FIGURES),
        /// How they were put in force: `vm-ceiling` (by the command, for each VM), `host-parameters`,
        /// `vm-ceilings` (of a plan), `host-parameters-and-vm-ceilings`, `guest-parameters` (in the guest itself), or
        /// `in-force` (nothing was set).
        pub(crate) means: String = Word,
        /// The words of the command of each period; empty where there was none, and with `--no-command`.
        pub(crate) command: Vec<String> = Words,
        pub(crate) host: MeasuredHost = Record(MeasuredHost::FIGURES),
        pub(crate) design: ProofDesign = Record(ProofDesign::FIGURES),
        pub(crate) cost: ProofCost = Record(ProofCost::FIGURES),
        /// On the cost of a halt: what it `says`, and with it `seen_from` (with `no-difference`: a difference of so
        /// much would have been detected), `noise` (with `too-noisy`: A against itself may differ by so much) or
        /// `needed` (with `too-few-rounds`: so many are needed).
        pub(crate) verdict: Verdict = Object,
        /// Measurements, figure by figure.
        pub(crate) figures: Vec<MeasuredFigure> = List(MeasuredFigure::FIGURES),
        /// Windows and time polled by powers of two, of all periods under A (the control is left out) and under B.
        #[serde(default)]
        pub(crate) polled: Vec<PolledBar> = List(PolledBar::FIGURES),
        /// Predictions of replay.
        pub(crate) predictions: Predictions = Record(Predictions::FIGURES),
        /// VM by VM that the plan gives a ceiling, then, without a name, those that follow the host's parameters; empty
        /// without a plan that has ceilings.
        pub(crate) scopes: Vec<ProvenScope> = List(ProvenScope::FIGURES),
        /// Figures that are not there, each with the reason.
        pub(crate) missing: BTreeMap<String, String> = Object,
        /// Period by period, in the order in which they ran.
        pub(crate) blocks: Vec<MeasuredBlock> = List(MeasuredBlock::FIGURES),
        /// Events lost in all periods.
        pub(crate) lost: u64 = Count,
        /// Fewer rounds than wanted.
        pub(crate) partial: bool = Flag,
        /// `all rounds`, the signal that came, or `an error`.
        pub(crate) ended_by: String = Word,
        /// The ledger that the predictions were added to.
        pub(crate) ledger: Option<String> = Name,
    }

    /// The cost of a halt in one VM, by its own goal.
    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct ProvenScope {
        /// The VM; `null` for all that follow the host's parameters.
        pub(crate) vm: Option<String> = Name,
        /// Its ceiling under A.
        pub(crate) a_halt_poll_ns: u32 = Nanos,
        /// Its ceiling under B.
        pub(crate) b_halt_poll_ns: u32 = Nanos,
        /// Nanoseconds of CPU that one of latency counts as.
        pub(crate) latency_weight: f64 = Real,
        /// Its halts in all periods.
        pub(crate) halts: u64 = Count,
        /// Median cost of a halt under A.
        pub(crate) a: f64 = MeanNanos,
        /// Under B.
        pub(crate) b: f64 = MeanNanos,
        /// B less A.
        pub(crate) effect: RankInterval = Record(ROUNDS),
        /// A again less A.
        pub(crate) noise: RankInterval = Record(ROUNDS),
        /// Prediction for B by a replay of the periods under A.
        pub(crate) predicted: Option<f64> = MeanNanos,
        /// Whether the measured difference lies within the predicted interval, widened by the noise.
        pub(crate) within: Option<bool> = Flag,
    }

    #[derive(Clone, PartialEq, Eq, Default, Deserialize)]
    pub(crate) struct ProvenSetting {
        /// As it was given.
        pub(crate) spec: String = Name,
        /// The ceiling; this and the next three `null` of a guest.
        pub(crate) halt_poll_ns: Option<u32> = Nanos,
        /// Factor of growth.
        pub(crate) halt_poll_ns_grow: Option<u32> = Number,
        /// First window.
        pub(crate) halt_poll_ns_grow_start: Option<u32> = Nanos,
        /// Divisor of shrinking.
        pub(crate) halt_poll_ns_shrink: Option<u32> = Number,
        /// Ceiling of the limits of a guest; this and the next four `null` of a host.
        pub(crate) guest_halt_poll_ns: Option<u32> = Nanos,
        /// Factor of growth.
        pub(crate) guest_halt_poll_grow: Option<u32> = Number,
        /// First limit.
        pub(crate) guest_halt_poll_grow_start: Option<u32> = Nanos,
        /// Divisor of shrinking.
        pub(crate) guest_halt_poll_shrink: Option<u32> = Number,
        /// Whether limits shrink.
        pub(crate) guest_halt_poll_allow_shrink: Option<bool> = Flag,
    }

    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct MeasuredHost {
        /// Its name.
        pub(crate) hostname: String = Name,
        /// Its kernel.
        pub(crate) kernel: String = Name,
        /// The source of events.
        pub(crate) rung: String = Word,
        /// Parameters that cannot be read on the host, taken at its kernel's defaults.
        pub(crate) knobs_assumed: Vec<String> = Words,
        /// Share of the measured time in which some task waited for a CPU (PSI).
        pub(crate) cpu_pressure: Option<f64> = Share,
    }

    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct ProofDesign {
        /// Rounds with all three periods.
        pub(crate) rounds: u64 = Count,
        /// Rounds asked for.
        pub(crate) rounds_wanted: u32 = Count,
        /// Seed that the orders are drawn from.
        pub(crate) seed: u64 = Number,
        /// Cut off the beginning of each period; `null` for a tenth of it.
        pub(crate) warm_up_ns: Option<u64> = Nanos,
        /// Median length of a period after the warm-up, in seconds.
        pub(crate) block_seconds: f64 = Real,
        /// Median halts of a period.
        pub(crate) block_halts: f64 = Real,
        /// VMs that counted, in the period that had most.
        pub(crate) vms: u64 = Count,
        /// The smallest difference that matters, in % of A.
        pub(crate) detect_percent: f64 = Real,
    }

    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct ProofCost {
        /// CPU time of one block and wake.
        pub(crate) switch_cpu_ns: u64 = Nanos,
        /// Where that comes from: `calibrated`, `given`, `assumed` (half of what the shortest sleeps take to wake)
        /// or `bounded` (that would be more than the 100 us that hardware can need, and is taken as those).
        pub(crate) switch_cpu_source: Source = Word,
        /// Nanoseconds of CPU that one of latency counts as.
        pub(crate) latency_weight: f64 = Real,
        /// Exits and IPIs of a guest; `null` of a host, whose halts exit under every setting.
        pub(crate) price: Option<Price> = Record(Price::FIGURES),
    }

    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct MeasuredFigure {
        /// Unit that it is counted in: `nanos`, `percent`, `per-second`, `per-halt`, `watts`, `plain`.
        pub(crate) unit: Unit = Word,
        #[serde(flatten)]
        pub(crate) comparison: Comparison = Flat(COMPARISON),
        /// The estimate of `effect` as a share of A, in %.
        pub(crate) effect_percent: Option<f64> = Real,
        /// The difference is more than what A against itself may differ by, and its interval excludes zero.
        pub(crate) differs: bool = Flag,
    }

    #[derive(Clone, PartialEq, Default, Deserialize)]
    pub(crate) struct Predictions {
        /// B, from the periods under A.
        pub(crate) of_b: Vec<Prediction> = List(PREDICTION),
        /// A, from the periods under B.
        pub(crate) of_a: Vec<Prediction> = List(PREDICTION),
        /// Rounds in which B had two steady states by prediction; shown is the one that starts with a window of 0.
        pub(crate) bistable_b: u64 = Count,
        /// The same of A.
        pub(crate) bistable_a: u64 = Count,
        /// Why something could not be predicted, and how far a prediction depends on wake-ups that the periods do not
        /// show.
        pub(crate) notes: Vec<String> = Words,
    }

    #[derive(Clone, PartialEq, Deserialize)]
    pub(crate) struct MeasuredBlock {
        /// From 1.
        pub(crate) number: u64 = Number,
        /// From 1.
        pub(crate) round: u64 = Number,
        /// `a`, `b` or `control`.
        pub(crate) block: Block = Word,
        /// Its length after the warm-up.
        pub(crate) seconds: f64 = Real,
        /// VMs that counted.
        pub(crate) vms: u64 = Count,
        /// Halts that counted.
        pub(crate) halts: u64 = Count,
        /// Events lost in it.
        pub(crate) lost: u64 = Count,
        /// Measurements, by figure.
        pub(crate) figures: BTreeMap<Figure, f64> = Object,
        /// Predictions for the other setting by a replay of this period, by figure.
        pub(crate) predicted: BTreeMap<Figure, f64> = Object,
        /// Notes on what happened in it.
        pub(crate) notes: Vec<String> = Words,
    }
}

figures! {
    /// One figure over all rounds that have it in every period.
    const COMPARISON: Comparison {
        /// Which figure.
        figure: Figure = Word,
        /// Median of the periods under A.
        a: f64 = Real,
        /// Median of the periods under B.
        b: f64 = Real,
        /// Median of the control periods.
        control: f64 = Real,
        /// B less A.
        effect: RankInterval = Record(ROUNDS),
        /// The control less A: what the host makes of settings that are the same.
        noise: RankInterval = Record(ROUNDS),
    }
}

figures! {
    pub(crate) const PREDICTION: Prediction {
        /// Which figure.
        figure: Figure = Word,
        /// Median of what was predicted.
        predicted: f64 = Real,
        /// Median of what was measured.
        measured: f64 = Real,
        /// Predicted minus measured, round by round.
        error: RankInterval = Record(ROUNDS),
        /// The predicted difference from the setting that the prediction was made from.
        effect: RankInterval = Record(ROUNDS),
        /// The measured one.
        measured_effect: RankInterval = Record(ROUNDS),
        /// Whether the measured difference lies within the predicted interval, widened by the noise.
        within: bool = Flag,
    }
}

figures! {
    const ROUNDS: RankInterval {
        /// The typical difference.
        estimate: f64 = Real,
        /// Lower end of its interval.
        low: f64 = Real,
        /// Upper end of its interval.
        high: f64 = Real,
        /// How often such an interval holds the truth.
        confidence: f64 = Share,
        /// Differences that it rests on.
        rounds: usize = Count,
    }
}

pub(crate) fn read(file: &Path) -> Result<Proof, Failure> {
    let text = files::read(file).with_context(|| format!("read {}", file.display()))?;
    let refuse = |error: anyhow::Error| {
        Failure::new(Exit::Failed, error).hint("write it with `haltwise prove --json > FILE`")
    };
    let of_others = || {
        format!(
            "{} is not output of `haltwise prove --json`",
            file.display()
        )
    };
    let value: serde_json::Value = serde_json::from_slice(&text)
        .with_context(of_others)
        .map_err(refuse)?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(schema) if !is_read(schema) => Err(refuse(anyhow!(
            "{} has schema {schema}; this haltwise reads {SCHEMA} and {SCHEMA_OF_GUEST}",
            file.display()
        ))),
        _ => serde_json::from_value(value)
            .with_context(of_others)
            .map_err(refuse),
    }
}

impl ProvenSetting {
    pub(crate) fn new(spec: String, values: &Values) -> Self {
        Self {
            spec,
            halt_poll_ns: values.get(Parameter::HaltPollNs),
            halt_poll_ns_grow: values.get(Parameter::Grow),
            halt_poll_ns_grow_start: values.get(Parameter::GrowStart),
            halt_poll_ns_shrink: values.get(Parameter::Shrink),
            guest_halt_poll_ns: values.get(Parameter::GuestHaltPollNs),
            guest_halt_poll_grow: values.get(Parameter::GuestGrow),
            guest_halt_poll_grow_start: values.get(Parameter::GuestGrowStart),
            guest_halt_poll_shrink: values.get(Parameter::GuestShrink),
            guest_halt_poll_allow_shrink: values.get(Parameter::GuestAllowShrink).map(|it| it != 0),
        }
    }

    pub(crate) fn values(&self) -> Values {
        let all = [
            (Parameter::HaltPollNs, self.halt_poll_ns),
            (Parameter::Grow, self.halt_poll_ns_grow),
            (Parameter::GrowStart, self.halt_poll_ns_grow_start),
            (Parameter::Shrink, self.halt_poll_ns_shrink),
            (Parameter::GuestHaltPollNs, self.guest_halt_poll_ns),
            (Parameter::GuestGrow, self.guest_halt_poll_grow),
            (Parameter::GuestGrowStart, self.guest_halt_poll_grow_start),
            (Parameter::GuestShrink, self.guest_halt_poll_shrink),
            (
                Parameter::GuestAllowShrink,
                self.guest_halt_poll_allow_shrink.map(u32::from),
            ),
        ];
        let known = all.into_iter();
        known.filter_map(|(it, value)| Some((it, value?))).collect()
    }
}
