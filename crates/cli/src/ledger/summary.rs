//! Accuracy of predictions: how often the measured difference fell within the predicted interval, and
//! by how much predicted and measured differ.
//!
//! A proof that was too noisy to decide anything tests no prediction: its noise widens every interval, so
//! nearly every difference lies within. A proof under CPU pressure tests none either: time that tasks waited for a CPU is not
//! the setting's. Such proofs are counted apart and are in no figure of accuracy.

use haltwise_core::prove::figure::{Figure, Unit};
use haltwise_core::stats::percentile_of_sorted;
use haltwise_document::figures;

use crate::proof::ledger::entry::{Entry, Kept};

figures! {
    #[derive(Clone, PartialEq)]
    pub(crate) struct Summary {
        /// Proofs that could decide.
        pub(crate) proofs: usize = Count,
        /// Predictions in them: one for each figure of each setting.
        pub(crate) predictions: usize = Count,
        /// Those of them whose measured difference fell within the predicted interval, widened by the noise.
        pub(crate) within: usize = Count,
        /// Predictions among these that would lie outside without the noise.
        pub(crate) within_by_noise: usize = Count,
        /// The same by figure.
        pub(crate) figures: Vec<FigureAccuracy> = List(FigureAccuracy::FIGURES),
        /// Proofs that were too noisy, or too short, to decide, or others wanted the CPUs.
        pub(crate) inconclusive: Inconclusive = Record(Inconclusive::FIGURES),
    }

    /// Proofs that test no prediction.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Inconclusive {
        /// Proofs.
        pub(crate) proofs: usize = Count,
        /// Predictions in them.
        pub(crate) predictions: usize = Count,
        /// Those of them within an interval that was widened by too much noise.
        pub(crate) within: usize = Count,
    }

    /// One figure over all proofs that could decide.
    #[derive(Clone, PartialEq)]
    pub(crate) struct FigureAccuracy {
        /// Which.
        pub(crate) figure: Figure = Word,
        /// Unit that the figure is counted in.
        pub(crate) unit: Unit = Word,
        /// How often it was predicted.
        pub(crate) predictions: usize = Count "n",
        /// How often within.
        pub(crate) within: usize = Count,
        /// How often only because of the noise.
        pub(crate) within_by_noise: usize = Count,
        /// Half of the intervals, widened by the noise, are at most so wide, from end to end.
        pub(crate) width_p50: f64 = Real,
        /// Nine in ten.
        pub(crate) width_p90: f64 = Real,
        /// Half of the predictions were off by at most so much.
        pub(crate) error_p50: f64 = Real,
        /// Nine in ten.
        pub(crate) error_p90: f64 = Real,
        /// The same in % of what was measured, where that is not zero and the figure not a share.
        pub(crate) relative_p50_percent: Option<f64> = CpuPercent "p50, %",
        /// Nine in ten.
        pub(crate) relative_p90_percent: Option<f64> = CpuPercent "p90, %",
    }
}

impl Summary {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let (judged, apart): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().partition(|entry| entry.is_judged());
        let of = |entries: &[&'_ Entry]| entries.iter().map(|entry| entry.predictions.len()).sum();
        let kept: Vec<&Kept> = judged.iter().flat_map(|entry| &entry.predictions).collect();
        let apart_within = apart.iter().flat_map(|entry| &entry.predictions);
        let figures = Figure::PREDICTED.into_iter();
        let figures = figures.filter_map(|figure| FigureAccuracy::of(figure, &kept));
        Self {
            proofs: judged.len(),
            predictions: kept.len(),
            within: kept.iter().filter(|kept| kept.prediction.within).count(),
            within_by_noise: kept.iter().filter(|kept| kept.is_within_by_noise()).count(),
            figures: figures.collect(),
            inconclusive: Inconclusive {
                proofs: apart.len(),
                predictions: of(&apart),
                within: apart_within.filter(|kept| kept.prediction.within).count(),
            },
        }
    }
}

impl FigureAccuracy {
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
        let widths = sorted(&mut of_figure().map(|kept| kept.width()));
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
            within_by_noise: of_figure().filter(|kept| kept.is_within_by_noise()).count(),
            width_p50: percentile_of_sorted(&widths, 0.5)?,
            width_p90: percentile_of_sorted(&widths, 0.9)?,
            error_p50: percentile_of_sorted(&errors, 0.5)?,
            error_p90: percentile_of_sorted(&errors, 0.9)?,
            relative_p50_percent: percentile_of_sorted(&relative, 0.5),
            relative_p90_percent: percentile_of_sorted(&relative, 0.9),
        })
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::prove::compare::Verdict;

    use super::*;
    use crate::proof::ledger::file::test::entry;

    /// An inconclusive proof changes no figure of accuracy, whatever it says.
    #[test]
    fn proofs_that_decide_nothing_stand_apart() {
        let judged = [entry(103.0, 100.0, true), entry(120.0, 100.0, false)];
        let alone = Summary::of(&judged);
        for (verdict, cpu_pressure) in [
            (Verdict::TooNoisy { noise: 900.0 }, None),
            (Verdict::TooFewRounds { needed: 6 }, Some(0.01)),
            (Verdict::Better, Some(0.2)),
        ] {
            let mut noisy = entry(900.0, 100.0, true);
            (noisy.verdict, noisy.cpu_pressure) = (verdict, cpu_pressure);
            noisy.predictions[0].noise = 900.0;
            let mut entries = judged.to_vec();
            entries.push(noisy);
            let Summary { inconclusive, .. } = Summary::of(&entries);
            let expected = Inconclusive {
                proofs: 1,
                predictions: 1,
                within: 1,
            };
            assert_eq!(inconclusive, expected);
            let accuracy = Summary {
                inconclusive: alone.inconclusive,
                ..Summary::of(&entries)
            };
            assert_eq!(accuracy, alone);
        }
    }

    #[test]
    fn what_was_measured_as_zero_has_no_relative_error() {
        let summary = Summary::of(&[entry(3.0, 0.0, true)]);
        assert!((summary.figures[0].error_p50 - 3.0).abs() < 1e-9);
        assert_eq!(summary.figures[0].relative_p50_percent, None);
        assert!(Summary::of(&[]).figures.is_empty());
    }
}
