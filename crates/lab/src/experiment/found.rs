//! What experiments found: the shape of `haltwise-lab experiment --json`.
//!
//! `docs/lab-experiments-json.md` describes it, and a test holds the two together. Fields are added,
//! never renamed or removed, within one [`SCHEMA`].

use haltwise_core::prove::rank::Interval;
use haltwise_core::stats::Estimate;
use serde::{Deserialize, Serialize};

use super::judge::SameDirection;
use super::witness::Witness;
use super::{Better, Chart, Expected, Kind, Table};

/// Version of the shape.
pub const SCHEMA: u32 = 1;

/// One or more experiments on one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Program and version.
    pub program: String,
    /// Where it ran.
    pub host: Host,
    /// The seed that everything was drawn from.
    pub seed: u64,
    /// How long it took in all.
    pub elapsed_ns: u64,
    /// The experiments in the order of the registry.
    pub experiments: Vec<Found>,
}

/// Where experiments ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Kernel release.
    pub kernel: String,
    /// CPUs that the lab may use.
    pub cpus: usize,
}

/// What one experiment found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// What it shows, in a line.
    pub title: String,
    /// Whose effect it reproduces.
    pub source: FoundSource,
    /// Why it could not be done, where others were done all the same.
    pub failed: Option<String>,
    /// Whole rounds.
    pub rounds: usize,
    /// How long each variant was loaded in each round.
    pub block_ns: u64,
    /// How long it took in all.
    pub elapsed_ns: u64,
    /// The figures, in the order in which they are shown.
    pub figures: Vec<FoundFigure>,
    /// What was measured of each variant.
    pub variants: Vec<FoundVariant>,
    /// The source's effects.
    pub effects: Vec<FoundEffect>,
    /// What had to be so in every block.
    #[serde(default)]
    pub integrity: Vec<FoundIntegrity>,
    /// Where load or variants are not the source's.
    #[serde(default)]
    pub limits: Vec<String>,
    /// Why the sizes differ from the source's.
    pub differs: String,
    /// Tables of its own.
    pub tables: Vec<Table>,
    /// Charts of its own.
    pub charts: Vec<Chart>,
    /// What else is to be said.
    pub notes: Vec<String>,
    /// The same halts and exits as `haltwise` recorded them.
    pub witness: Witness,
}

/// A document and what it reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundSource {
    /// The document.
    pub document: String,
    /// What it reports.
    pub reports: Vec<String>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFigure {
    /// Its name.
    pub name: String,
    /// What it is counted in.
    pub unit: String,
    /// Which direction is good.
    pub better: Better,
    /// What it is.
    pub what: String,
}

/// A variant and what was measured of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundVariant {
    /// Its group.
    pub group: String,
    /// Its name within the group.
    pub name: String,
    /// What it is.
    pub what: String,
    /// An estimate for each of the experiment's figures; `None` if no round has it.
    pub figures: Vec<Option<Estimate>>,
    /// The figure in each round, for each of the experiment's figures.
    pub samples: Vec<Vec<Option<f64>>>,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundEffect {
    /// Whether it may fail.
    #[serde(default)]
    pub kind: Kind,
    /// What is compared.
    pub what: String,
    /// The figure by name.
    pub figure: String,
    /// The group of both variants.
    pub group: String,
    /// The variant that it is seen from.
    pub from: String,
    /// The variant that differs.
    pub to: String,
    /// The direction that the source leads to.
    pub expected: Expected,
    /// What the source says of it.
    pub reported: String,
    /// Median of `from`; `None` if it could not be measured.
    pub from_median: Option<f64>,
    /// Median of `to`, likewise.
    pub to_median: Option<f64>,
    /// `to` less `from`, round by round.
    pub difference: Option<Interval>,
    /// `to` over `from`, round by round; `None` if one of them is not above 0 in every round.
    #[serde(default)]
    pub ratio: Option<Interval>,
    /// Whether the direction is the source's.
    pub same_direction: SameDirection,
}

/// What had to be so in every block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundIntegrity {
    /// What it shows.
    pub what: String,
    /// The group; empty for what concerns the whole experiment.
    pub group: String,
    /// What was demanded.
    pub demanded: String,
    /// Values looked at.
    pub checked: usize,
    /// Of these, those that were not as demanded.
    pub broken: usize,
    /// Whether it holds.
    pub holds: SameDirection,
}

/// How many verdicts were which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// As the source says, or as demanded.
    pub yes: usize,
    /// The other direction, or broken.
    pub no: usize,
    /// Neither could be shown.
    pub not_shown: usize,
}

impl Tally {
    /// Of some verdicts.
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

    /// How many there are.
    pub fn all(&self) -> usize {
        self.yes + self.no + self.not_shown
    }
}

impl Report {
    /// The experiments that could be done.
    fn done(&self) -> impl Iterator<Item = &Found> {
        let experiments = self.experiments.iter();
        experiments.filter(|found| found.failed.is_none())
    }

    /// The effects of a kind.
    pub fn effects(&self, kind: Kind) -> Tally {
        let effects = self.done().flat_map(|found| &found.effects);
        let of_kind = effects.filter(|effect| effect.kind == kind);
        Tally::of(of_kind.map(|effect| effect.same_direction))
    }

    /// The integrity checks.
    pub fn integrity(&self) -> Tally {
        let checks = self.done().flat_map(|found| &found.integrity);
        Tally::of(checks.map(|check| check.holds))
    }
}
