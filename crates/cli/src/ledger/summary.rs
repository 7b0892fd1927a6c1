//! How good predictions were: how often the measured difference fell within the predicted interval, and
//! by how much predicted and measured differ.

use haltwise_core::prove::figure::{Figure, Unit};
use haltwise_core::stats::percentile_of_sorted;
use serde::Serialize;

use super::entry::{Entry, Kept};

/// Over all proofs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// Proofs.
    pub(crate) proofs: usize,
    /// Predictions: one for each figure of each setting.
    pub(crate) predictions: usize,
    /// Of them, those whose measured difference fell within the predicted interval.
    pub(crate) within: usize,
    /// Figure by figure.
    pub(crate) figures: Vec<OfFigure>,
}

/// One figure over all proofs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct OfFigure {
    /// Which.
    pub(crate) figure: Figure,
    /// What it is counted in.
    pub(crate) unit: Unit,
    /// How often it was predicted.
    pub(crate) predictions: usize,
    /// How often within.
    pub(crate) within: usize,
    /// Half of the absolute errors are at most so large.
    pub(crate) error_p50: f64,
    /// Nine in ten.
    pub(crate) error_p90: f64,
    /// The same as shares of what was measured, in %, where that was not zero.
    pub(crate) relative_p50_percent: Option<f64>,
    /// Nine in ten.
    pub(crate) relative_p90_percent: Option<f64>,
}

impl Summary {
    /// Sums up.
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let kept: Vec<&Kept> = entries
            .iter()
            .flat_map(|entry| &entry.predictions)
            .collect();
        let figures = Figure::PREDICTED.into_iter();
        let figures = figures.filter_map(|figure| OfFigure::of(figure, &kept));
        Self {
            proofs: entries.len(),
            predictions: kept.len(),
            within: kept.iter().filter(|kept| kept.prediction.within).count(),
            figures: figures.collect(),
        }
    }
}

impl OfFigure {
    fn of(figure: Figure, kept: &[&Kept]) -> Option<Self> {
        let of_figure = || kept.iter().filter(|kept| kept.prediction.figure == figure);
        let sorted = |values: &mut dyn Iterator<Item = f64>| {
            let mut sorted: Vec<f64> = values.collect();
            sorted.sort_by(f64::total_cmp);
            sorted
        };
        let errors = sorted(
            &mut of_figure()
                .map(|kept| (kept.prediction.predicted - kept.prediction.measured).abs()),
        );
        let relative = sorted(&mut of_figure().filter_map(|kept| {
            // A share of a share misleads: those are told in points alone.
            let share = kept.prediction.relative_error()?;
            (figure.unit() != Unit::Percent).then_some(share.abs() * 100.0)
        }));
        Some(Self {
            figure,
            unit: figure.unit(),
            predictions: errors.len(),
            within: of_figure().filter(|kept| kept.prediction.within).count(),
            error_p50: percentile_of_sorted(&errors, 0.5)?,
            error_p90: percentile_of_sorted(&errors, 0.9)?,
            relative_p50_percent: percentile_of_sorted(&relative, 0.5),
            relative_p90_percent: percentile_of_sorted(&relative, 0.9),
        })
    }
}

#[cfg(test)]
mod test {
    use super::super::file::test::entry;
    use super::*;

    #[test]
    fn medians_and_tails_by_hand() {
        let entries: Vec<Entry> = (1..=10)
            .map(|n| entry(100.0 + f64::from(n), 100.0, n <= 7))
            .collect();
        let summary = Summary::of(&entries);
        assert_eq!(
            (summary.proofs, summary.predictions, summary.within),
            (10, 10, 7)
        );
        let [cost] = &summary.figures[..] else {
            panic!("{summary:?}");
        };
        assert_eq!((cost.error_p50, cost.error_p90), (5.0, 9.0));
        assert_eq!(cost.relative_p50_percent, Some(5.0));
        assert_eq!(cost.relative_p90_percent, Some(9.0));
    }

    #[test]
    fn what_was_measured_as_zero_has_no_relative_error() {
        let summary = Summary::of(&[entry(3.0, 0.0, true)]);
        assert!((summary.figures[0].error_p50 - 3.0).abs() < 1e-9);
        assert_eq!(summary.figures[0].relative_p50_percent, None);
        assert!(Summary::of(&[]).figures.is_empty());
    }
}
