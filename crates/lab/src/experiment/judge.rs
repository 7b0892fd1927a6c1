//! An effect, from the differences of rounds: how large, and whether its direction is the source's.

use haltwise_core::prove::rank::{FEWEST, Interval};
use serde::{Deserialize, Serialize};

use super::Expected;

/// Whether the direction measured is the source's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SameDirection {
    /// The interval lies where the source leads to.
    Yes,
    /// It lies on the other side.
    No,
    /// It lies on both, or there are too few rounds for one.
    NotShown,
}

impl SameDirection {
    /// The word printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::NotShown => "not shown",
        }
    }
}

/// The differences of rounds that have the figure under both variants, `to` less `from`.
pub fn difference(rounds: &[(Option<f64>, Option<f64>)]) -> Option<Interval> {
    let whole = rounds
        .iter()
        .filter_map(|(from, to)| Some((*to)? - (*from)?));
    Interval::of(&whole.collect::<Vec<f64>>())
}

/// Whether a difference goes where it was expected. `from` is the figure that it is seen from.
pub fn direction(expected: Expected, from: f64, difference: &Interval) -> SameDirection {
    if difference.rounds < FEWEST {
        return SameDirection::NotShown;
    }
    let (low, high) = (difference.low, difference.high);
    let (yes, no) = match expected {
        Expected::Less => (high < 0.0, low > 0.0),
        Expected::More => (low > 0.0, high < 0.0),
        Expected::AboutSame(share) => {
            let slack = share * from.abs();
            let apart = low > slack || high < -slack;
            (low >= -slack && high <= slack, apart)
        }
    };
    match (yes, no) {
        (true, _) => SameDirection::Yes,
        (_, true) => SameDirection::No,
        _ => SameDirection::NotShown,
    }
}
