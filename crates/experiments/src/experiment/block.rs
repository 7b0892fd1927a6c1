//! Result of one run of one variant: figures, and the counts that a cross-check must match.

use std::collections::BTreeMap;

use haltwise_lab::outcome::VcpuOutcome;

#[derive(Debug, Clone, Default)]
pub struct Block {
    /// Its figures by name; one that could not be had is not there.
    pub figures: BTreeMap<&'static str, f64>,
    pub vcpus: Vec<VcpuOutcome>,
    /// Counts for a chart, by name, as many as it has labels; those of a variant's blocks are added up.
    pub counts: BTreeMap<&'static str, Vec<u64>>,
    pub note: Option<String>,
}

impl Block {
    /// With the counts of a run's vCPUs, and no figures yet.
    pub fn of<'a>(vcpus: impl IntoIterator<Item = &'a VcpuOutcome>) -> Self {
        Self {
            vcpus: vcpus.into_iter().cloned().collect(),
            ..Self::default()
        }
    }

    /// The same with another figure; one that is not known, or is no number, is left out.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Option<f64>>) -> Self {
        let value = value.into().filter(|value| value.is_finite());
        self.figures.extend(value.map(|value| (name, value)));
        self
    }

    /// The same with counts for a chart.
    #[must_use]
    pub fn with_counts(mut self, name: &'static str, counts: Vec<u64>) -> Self {
        self.counts.insert(name, counts);
        self
    }
}
