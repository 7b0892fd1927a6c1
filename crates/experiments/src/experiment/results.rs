//! All blocks of an experiment, for those who conclude from them.

use haltwise_core::stats::{Estimate, median_estimate};
use serde::{Deserialize, Serialize};

use super::judge::Change;
use super::recorder::Haltwise;
use super::{Block, Experiment, Trial, Variant};

#[derive(Debug)]
pub struct Results<'a> {
    pub experiment: &'a Experiment,
    pub variants: &'a [Variant],
    pub rounds: &'a [Vec<Block>],
    /// Inputs of further runs; `None` if a kept run is judged again.
    pub further: Option<Further<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub struct Further<'a> {
    pub trial: Trial<'a>,
    pub haltwise: Option<&'a Haltwise>,
}

impl Results<'_> {
    pub fn index(&self, group: &str, name: &str) -> Option<usize> {
        let is = |variant: &Variant| variant.group == group && variant.name == name;
        self.variants.iter().position(is)
    }

    /// A figure of a variant in every round that has it.
    pub fn samples(&self, variant: usize, figure: &str) -> Vec<f64> {
        let blocks = self.rounds.iter().filter_map(|round| round.get(variant));
        let figures = blocks.filter_map(|block| block.figures.get(figure));
        figures.copied().collect()
    }

    pub fn estimate(&self, variant: usize, figure: &str) -> Option<Estimate> {
        median_estimate(&self.samples(variant, figure))
    }

    pub fn median(&self, group: &str, name: &str, figure: &str) -> Option<f64> {
        Some(self.estimate(self.index(group, name)?, figure)?.median)
    }

    /// The change of a figure between two variants of a group, seen from the first.
    pub fn between(&self, figure: &str, group: &str, from: &str, to: &str) -> Option<Change> {
        let from = self.index(group, from)?;
        let to = self.index(group, to)?;
        let of = |round: &[Block], variant: usize| round.get(variant)?.figures.get(figure).copied();
        let rounds = self.rounds.iter();
        let pairs = rounds.map(|round| (of(round, from), of(round, to)));
        Change::of(&pairs.collect::<Vec<_>>())
    }

    /// Counts of a variant over all rounds.
    pub fn counts(&self, variant: usize, name: &str) -> Vec<u64> {
        let mut sum = Vec::new();
        let blocks = self.rounds.iter().filter_map(|round| round.get(variant));
        for counts in blocks.filter_map(|block| block.counts.get(name)) {
            sum.resize(sum.len().max(counts.len()), 0);
            for (total, count) in sum.iter_mut().zip(counts) {
                *total += count;
            }
        }
        sum
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conclusion {
    pub tables: Vec<Table>,
    pub charts: Vec<Chart>,
    pub notes: Vec<String>,
}

impl FromIterator<String> for Conclusion {
    fn from_iter<I: IntoIterator<Item = String>>(notes: I) -> Self {
        Self {
            notes: notes.into_iter().collect(),
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    pub title: String,
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    pub title: String,
    pub labels_are: String,
    pub labels: Vec<String>,
    pub series: Vec<(String, Vec<f64>)>,
}
