//! The settings of a costs table, under a name that says which they are. A grid never changes: other settings are a grid
//! of another name.

use crate::kvm::Knobs;
use crate::kvm::knobs::GROW_START;
use crate::replay::GoalName;
use crate::tune::candidates::{fixed, toggle};

/// The name of the grid that is written.
pub const GRID: &str = "kvm-1";

/// Ceilings in nanoseconds; off comes to them.
const CEILINGS_NS: [u32; 16] = [
    5_000, 8_000, 12_000, 20_000, 30_000, 40_000, 50_000, 75_000, 100_000, 150_000, 200_000,
    300_000, 400_000, 500_000, 750_000, 1_000_000,
];

crate::names! {
    /// Kind of a row of a costs table.
    ///
    /// In the order of a table.
    pub enum Kind {
        /// The halts as they were recorded.
        Recorded = "recorded",
        /// The setting in force, replayed, with the ceiling that each VM had.
        InForce = "in-force",
        /// The default of that kernel.
        Default = "default",
        /// A setting of the grid.
        Grid = "grid",
        /// The least that any policy can cost where latency counts nothing.
        OracleDensity = "oracle-density",
        /// The same where 1 ns of latency counts as 1 ns of CPU time.
        OracleBalanced = "oracle-balanced",
        /// The same where it counts as 10 ns.
        OracleLatency = "oracle-latency",
    }
}

impl Kind {
    /// The bounds, each with the weight of latency that it holds for, in thousandths.
    pub const ORACLES: [(Self, u64); 3] = [
        (Self::OracleDensity, GoalName::Density.weight_milli()),
        (Self::OracleBalanced, GoalName::Balanced.weight_milli()),
        (Self::OracleLatency, GoalName::Latency.weight_milli()),
    ];

    /// Whether a row of it has parameters.
    pub fn has_knobs(self) -> bool {
        matches!(self, Self::InForce | Self::Default | Self::Grid)
    }

    /// The bound for a weight of latency in thousandths, if there is one.
    pub fn oracle(weight_milli: u64) -> Option<Self> {
        let mut all = Self::ORACLES.into_iter();
        all.find(|(_, of)| *of == weight_milli)
            .map(|(kind, _)| kind)
    }
}

/// Ways in which windows grow and shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// The default since 6.11: grow by two, shrink by two.
    Halving,
    /// The default before: grow by two, shrink to zero.
    Dropping,
    /// A window of one length, from the first short halt on.
    Fixed,
    /// The whole ceiling after a short halt, nothing after a long one.
    Toggle,
}

impl Shape {
    pub const ALL: [Self; 4] = [Self::Halving, Self::Dropping, Self::Fixed, Self::Toggle];

    pub fn with(self, ceiling_ns: u32) -> Knobs {
        let growing = |shrink| Knobs::of([ceiling_ns, 2, GROW_START, shrink]);
        match self {
            Self::Halving => growing(2),
            Self::Dropping => growing(0),
            Self::Fixed => fixed(ceiling_ns),
            Self::Toggle => toggle(ceiling_ns, &growing(0)),
        }
    }

    /// The shape of a setting of the grid; `None` of off, which has all of them.
    pub fn of(knobs: &Knobs) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|shape| knobs.halt_poll_ns > 0 && shape.with(knobs.halt_poll_ns) == *knobs)
    }
}

/// Whether a VM's own ceiling (`KVM_CAP_HALT_POLL`) makes `wanted` of a host's setting: the ceiling moves, the other
/// parameters stay the host's. `grow_start` is of no account where the ceiling is below it and windows go to 0 when they
/// shrink.
pub fn is_made_by_cap(host: &Knobs, wanted: &Knobs) -> bool {
    let rest = |knobs: &Knobs| (knobs.grow, knobs.grow_start, knobs.shrink);
    let is_toggle = |knobs: &Knobs| Shape::of(knobs) == Some(Shape::Toggle);
    *wanted == OFF
        || rest(wanted) == rest(host)
        || (is_toggle(host) && is_toggle(wanted) && wanted.halt_poll_ns < host.halt_poll_ns)
}

/// No polling.
pub const OFF: Knobs = Knobs::of([0, 2, GROW_START, 2]);

/// The settings of [`GRID`], in their order: off, then ceiling by ceiling, shape by shape. A kernel that lacks a
/// parameter is played as it does without.
pub fn settings() -> Vec<Knobs> {
    let ceilings = CEILINGS_NS.into_iter();
    let with = ceilings.flat_map(|ns| Shape::ALL.map(|shape| shape.with(ns)));
    std::iter::once(OFF).chain(with).collect()
}
