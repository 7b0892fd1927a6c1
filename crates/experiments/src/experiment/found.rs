//! Results of experiments: the shape of `haltwise-experiments --json`.
//!
//! `docs/lab-experiments-json.md` describes it, and a test holds the two together. Fields are added,
//! never renamed or removed, within one [`SCHEMA`].

use haltwise_core::stats::Estimate;
use haltwise_core::stats::ranks::RankInterval;
use haltwise_core::units::Nanos;
use serde::{Deserialize, Serialize};

use super::judge::SameDirection;
use super::witness::Witness;
use super::{Chart, Effect, Experiment, Figure, Kind, Table, Variant};

pub const SCHEMA: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: u32,
    pub program: String,
    pub host: Host,
    /// The seed that everything was drawn from.
    pub seed: u64,
    pub elapsed_ns: u64,
    pub experiments: Vec<Found>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    pub kernel: String,
    /// CPUs that the lab may use.
    pub cpus: usize,
    /// Time that a wait adds between signal and guest, median; `None` if polling could not be measured here.
    pub wake_latency_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Found {
    pub name: String,
    pub title: String,
    pub source: FoundSource,
    pub scaled: Option<FoundScaled>,
    /// Why it could not be done, where others were done all the same.
    pub failed: Option<String>,
    pub rounds: usize,
    pub block_ns: u64,
    pub elapsed_ns: u64,
    /// The figures, in the order in which they are shown.
    pub figures: Vec<Figure>,
    pub variants: Vec<FoundVariant>,
    pub effects: Vec<FoundEffect>,
    /// Conditions that had to hold in every block.
    pub integrity: Vec<FoundIntegrity>,
    /// Where load or variants are not the source's.
    pub limits: Vec<String>,
    pub differs: String,
    pub tables: Vec<Table>,
    pub charts: Vec<Chart>,
    pub notes: Vec<String>,
    /// The same halts and exits as `haltwise` recorded them.
    pub witness: Witness,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FoundSource {
    pub document: String,
    pub reports: Vec<String>,
}

/// How times of the source were multiplied.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FoundScaled {
    /// The source's.
    pub wake_latency_ns: u64,
    pub factor: u64,
    /// Groups and variants that are named after a time of the source, and that time here.
    pub times: Vec<(String, u64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundVariant {
    #[serde(flatten)]
    pub variant: Variant,
    /// An estimate for each of the experiment's figures; `None` if no round has it.
    pub figures: Vec<Option<Estimate>>,
    pub samples: Vec<Vec<Option<f64>>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundEffect {
    #[serde(flatten)]
    pub effect: Effect,
    /// Median of `from`; `None` if it could not be measured.
    pub from_median: Option<f64>,
    pub to_median: Option<f64>,
    /// `to` less `from`, round by round.
    pub difference: Option<RankInterval>,
    /// `to` over `from`, round by round; `None` if one of them is not above 0 in every round.
    pub ratio: Option<RankInterval>,
    pub same_direction: SameDirection,
}

impl FoundEffect {
    /// Whether more rounds could change nothing: it was decided, or cannot be measured here.
    pub(super) fn is_decided(&self) -> bool {
        self.same_direction != SameDirection::NotShown || self.difference.is_none()
    }
}

/// Condition that had to hold in every block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundIntegrity {
    pub what: String,
    /// The group; empty for what concerns the whole experiment.
    pub group: String,
    pub demanded: String,
    pub checked: usize,
    /// Those of them that were not as demanded.
    pub broken: usize,
    pub holds: SameDirection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// As the source says, or as demanded.
    pub yes: usize,
    pub no: usize,
    pub not_shown: usize,
}

impl Tally {
    pub fn of(verdicts: impl Iterator<Item = SameDirection>) -> Self {
        let mut tally = Self::default();
        for verdict in verdicts {
            *match verdict {
                SameDirection::Yes => &mut tally.yes,
                SameDirection::No => &mut tally.no,
                SameDirection::NotShown => &mut tally.not_shown,
            } += 1;
        }
        tally
    }

    pub fn all(&self) -> usize {
        self.yes + self.no + self.not_shown
    }
}

impl Found {
    /// Known part of an experiment's result before measurement.
    pub(super) fn nothing_of(experiment: &Experiment) -> Self {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Self {
            name: experiment.name.to_owned(),
            title: experiment.title.to_owned(),
            source: FoundSource {
                document: experiment.source.document.to_owned(),
                reports: texts(experiment.source.reports),
            },
            figures: experiment.figures.to_vec(),
            differs: experiment.differs.to_owned(),
            limits: texts(experiment.limits),
            ..Self::default()
        }
    }

    /// A group or variant, with its time here if it is named after one of the source.
    pub fn named(&self, name: &str) -> String {
        let mut times = self.scaled.iter().flat_map(|scaled| &scaled.times);
        let time = times.find(|(of, _)| of == name);
        time.map_or(name.to_owned(), |(_, ns)| {
            format!("{name}, here {}", Nanos(*ns).to_exact())
        })
    }
}

impl Report {
    fn done(&self) -> impl Iterator<Item = &Found> {
        let experiments = self.experiments.iter();
        experiments.filter(|found| found.failed.is_none())
    }

    pub fn effects(&self, kind: Kind) -> Tally {
        let effects = self.done().flat_map(|found| &found.effects);
        let of_kind = effects.filter(|effect| effect.effect.kind == kind);
        Tally::of(of_kind.map(|effect| effect.same_direction))
    }

    pub fn integrity(&self) -> Tally {
        let checks = self.done().flat_map(|found| &found.integrity);
        Tally::of(checks.map(|check| check.holds))
    }
}
