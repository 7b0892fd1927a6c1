//! An effect, from the changes within rounds: how large, and whether its direction is the source's; and a
//! check, from the values of blocks.

use haltwise_core::stats::FEWEST;
use haltwise_core::stats::ranks::RankInterval;
use serde::{Deserialize, Serialize};

use super::Expected;

/// Whether the direction measured is the source's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SameDirection {
    /// The interval lies where the source leads to; every block has the value demanded.
    Yes,
    /// It lies on the other side; a block has another value.
    No,
    /// It lies on both, or there are too few rounds for one; no block has the figure.
    NotShown,
}

impl SameDirection {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::NotShown => "not shown",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// `to` less `from`, in the figure's unit.
    pub difference: RankInterval,
    /// `to` over `from`; `None` if one of them is not above 0 in every round.
    ///
    /// A share of `from`'s median would do where rounds hardly differ, but its ends can lie below -100 %,
    /// which no figure can fall by.
    pub ratio: Option<RankInterval>,
}

impl Change {
    /// Computes the change over the rounds that have the figure under both variants, each as `from` and `to`.
    pub fn of(rounds: &[(Option<f64>, Option<f64>)]) -> Option<Self> {
        let whole = rounds
            .iter()
            .filter_map(|(from, to)| Some(((*from)?, (*to)?)));
        let whole: Vec<(f64, f64)> = whole.collect();
        let differences: Vec<f64> = whole.iter().map(|(from, to)| to - from).collect();
        let log = |(from, to): &(f64, f64)| (*from > 0.0 && *to > 0.0).then(|| (to / from).ln());
        let logs: Option<Vec<f64>> = whole.iter().map(log).collect();
        Some(Self {
            difference: RankInterval::of(&differences)?,
            ratio: logs
                .and_then(|logs| RankInterval::of(&logs))
                .map(out_of_logs),
        })
    }

    /// Whether the interval leaves no room for no change.
    pub fn excludes_none(&self) -> bool {
        match &self.ratio {
            Some(ratio) => ratio.low > 1.0 || ratio.high < 1.0,
            None => self.difference.excludes_zero(),
        }
    }
}

fn out_of_logs(logs: RankInterval) -> RankInterval {
    RankInterval {
        estimate: logs.estimate.exp(),
        low: logs.low.exp(),
        high: logs.high.exp(),
        ..logs
    }
}

/// Whether a change goes where it was expected: by the ratio where there is one, else by the difference.
/// `from` is the figure that it is seen from.
pub fn direction(expected: Expected, from: f64, change: &Change) -> SameDirection {
    if change.difference.rounds < FEWEST {
        return SameDirection::NotShown;
    }
    // As a share of `from`, or in the figure's unit.
    let (low, high, one) = match &change.ratio {
        Some(ratio) => (ratio.low - 1.0, ratio.high - 1.0, 1.0),
        None => (change.difference.low, change.difference.high, from.abs()),
    };
    let (yes, no) = match expected {
        Expected::Less => (high < 0.0, low > 0.0),
        Expected::More => (low > 0.0, high < 0.0),
        Expected::NoMoreThan(share) => (high <= share * one, low > share * one),
        Expected::NoLessThan(share) => (low >= -share * one, high < -share * one),
    };
    match (yes, no) {
        (true, _) => SameDirection::Yes,
        (_, true) => SameDirection::No,
        _ => SameDirection::NotShown,
    }
}

/// Whether so many values were as demanded, so many of them not. One that is not is enough.
pub fn demand(checked: usize, broken: usize) -> SameDirection {
    match (checked, broken) {
        (0, _) => SameDirection::NotShown,
        (_, 0) => SameDirection::Yes,
        _ => SameDirection::No,
    }
}
