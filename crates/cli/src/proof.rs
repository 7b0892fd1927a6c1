//! The result of a proof, which `prove` makes, `ledger` keeps and the page of `report --html` shows: the JSON, and
//! what `--from` reads back.
//!
//! [`figure`] words its figures, [`ledger`] is the file in which predictions and outcomes are kept.

pub(crate) mod figure;
pub(crate) mod ledger;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, anyhow};
use haltwise_capture::files;
use haltwise_core::prove::compare::{Comparison, Verdict};
use haltwise_core::prove::figure::{Figure, Unit};
use haltwise_core::prove::predict::Prediction;
use haltwise_core::prove::schedule::Block;
use serde::{Deserialize, Serialize};

use crate::costs::Source;
use crate::exit::{Exit, Failure};

/// Version of the JSON; documented in `docs/prove-json.md`.
pub(crate) const SCHEMA: u32 = 1;

/// The whole result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Proof {
    /// Version of this shape.
    pub(crate) schema: u32,
    /// The first setting: what is measured against.
    pub(crate) a: SettingView,
    /// The second.
    pub(crate) b: SettingView,
    /// How they were put in force: `vm-ceiling`, `host-parameters` or `in-force`.
    pub(crate) means: String,
    /// The command of each block.
    pub(crate) command: Vec<String>,
    /// Where it was measured.
    pub(crate) host: HostView,
    /// How.
    pub(crate) design: Design,
    /// What things cost.
    pub(crate) cost: CostView,
    /// On cost.
    pub(crate) verdict: Verdict,
    /// Figure by figure.
    pub(crate) figures: Vec<FigureView>,
    /// What a replay said.
    pub(crate) predictions: Predictions,
    /// Figures that are not there, and why.
    pub(crate) missing: BTreeMap<String, String>,
    /// Block by block, in the order in which they ran.
    pub(crate) blocks: Vec<BlockView>,
    /// Events lost in all blocks.
    pub(crate) lost: u64,
    /// Fewer rounds than wanted.
    pub(crate) partial: bool,
    /// `all rounds`, the signal that came, or `an error`.
    pub(crate) ended_by: String,
    /// The ledger that the predictions were added to.
    pub(crate) ledger: Option<String>,
}

/// A setting, and what it comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SettingView {
    /// As it was given.
    pub(crate) spec: String,
    /// The ceiling.
    pub(crate) halt_poll_ns: u32,
    /// Factor of growth.
    pub(crate) halt_poll_ns_grow: u32,
    /// First window.
    pub(crate) halt_poll_ns_grow_start: u32,
    /// Divisor of shrinking.
    pub(crate) halt_poll_ns_shrink: u32,
}

/// Where it was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostView {
    /// Its name.
    pub(crate) hostname: String,
    /// Its kernel.
    pub(crate) kernel: String,
    /// Where the facts came from.
    pub(crate) rung: String,
    /// Parameters that the host does not tell, taken at its kernel's defaults.
    pub(crate) knobs_assumed: Vec<String>,
}

/// How it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Design {
    /// Rounds with all their blocks.
    pub(crate) rounds: u64,
    /// Rounds wanted.
    pub(crate) rounds_wanted: u32,
    /// Seed of the orders.
    pub(crate) seed: u64,
    /// Cut off each block; `None` for a tenth of it.
    pub(crate) warm_up_ns: Option<u64>,
    /// Median length of a block after that.
    pub(crate) block_seconds: f64,
    /// Median halts of a block.
    pub(crate) block_halts: f64,
    /// VMs that counted, in the block with most.
    pub(crate) vms: u64,
    /// The smallest difference that matters, in % of A.
    pub(crate) detect_percent: f64,
}

/// What things cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CostView {
    /// CPU time of one block and wake.
    pub(crate) switch_cpu_ns: u64,
    /// Where that comes from.
    pub(crate) switch_cpu_source: Source,
    /// What a nanosecond of latency is worth in nanoseconds of CPU.
    pub(crate) latency_weight: f64,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FigureView {
    /// What it is counted in.
    pub(crate) unit: Unit,
    /// A, B, the control, and their differences.
    #[serde(flatten)]
    pub(crate) comparison: Comparison,
    /// The difference as a share of A, in %.
    pub(crate) effect_percent: Option<f64>,
    /// The difference is larger than what A against itself may differ by, and its interval excludes
    /// zero.
    pub(crate) differs: bool,
}

/// What a replay said.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Predictions {
    /// B, from the blocks under A.
    pub(crate) of_b: Vec<Prediction>,
    /// A, from the blocks under B.
    pub(crate) of_a: Vec<Prediction>,
    /// Rounds in which B had two steady states by prediction.
    pub(crate) bistable_b: u64,
    /// ... A.
    pub(crate) bistable_a: u64,
    /// Why something could not be predicted.
    pub(crate) notes: Vec<String>,
}

/// One block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BlockView {
    /// From 1.
    pub(crate) number: u64,
    /// From 1.
    pub(crate) round: u64,
    /// What it is for.
    pub(crate) block: Block,
    /// Its length after the warm-up.
    pub(crate) seconds: f64,
    /// VMs that counted.
    pub(crate) vms: u64,
    /// Halts that counted.
    pub(crate) halts: u64,
    /// Events lost.
    pub(crate) lost: u64,
    /// What was measured, by figure.
    pub(crate) figures: BTreeMap<Figure, f64>,
    /// What a replay of this block says of the other setting.
    pub(crate) predicted: BTreeMap<Figure, f64>,
    /// What there is to say.
    pub(crate) notes: Vec<String>,
}

/// Reads a result that was kept.
pub(crate) fn read(file: &Path) -> Result<Proof, Failure> {
    let text = files::read(file).with_context(|| format!("read {}", file.display()))?;
    let hint = "write it with `haltwise prove --json > FILE`";
    let refuse = |error: anyhow::Error| Failure::new(Exit::Failed, error).hint(hint);
    let value: serde_json::Value = serde_json::from_slice(&text)
        .with_context(|| {
            format!(
                "{} is not output of `haltwise prove --json`",
                file.display()
            )
        })
        .map_err(refuse)?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(schema) if schema == u64::from(SCHEMA) => {}
        Some(other) => {
            let file = file.display();
            return Err(refuse(anyhow!(
                "{file} has schema {other}; this haltwise reads {SCHEMA}"
            )));
        }
        None => {
            return Err(refuse(anyhow!(
                "{} is not output of `haltwise prove --json`",
                file.display()
            )));
        }
    }
    serde_json::from_value(value)
        .with_context(|| {
            format!(
                "{} is not output of `haltwise prove --json`",
                file.display()
            )
        })
        .map_err(refuse)
}
