//! All experiments there are: a line each, in the order of the sources.

use super::{Experiment, poll_sweep};

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] = &[poll_sweep::EXPERIMENT];

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name)
}
