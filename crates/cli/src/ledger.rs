//! Accuracy of predictions: how often the measured difference fell within the predicted interval, and by how much
//! predicted and measured differ. The file itself is [`crate::proof::ledger`]'s.
//!
//! A proof that was too noisy to decide anything tests no prediction: its noise widens every interval, so
//! nearly every difference lies within. A proof under CPU pressure tests none either: time that tasks waited for a CPU is not
//! the setting's. Such proofs are counted apart and are in no figure of accuracy.

use std::path::Path;

use haltwise_core::prove::compare::Verdict;
use haltwise_core::prove::figure::{Figure, Unit as FigureUnit};
use haltwise_core::stats::percentile_of_sorted;
use haltwise_document::{Document, Rows, Unit, Untrusted, figures, prose};
use haltwise_host::root::Root;

use crate::exit::{Exit, Failure, Outcome};
use crate::number::percent;
use crate::proof::figure;
use crate::proof::ledger::entry::{Entry, Kept};
use crate::proof::ledger::{file, place};
use crate::shown::Shown;
use crate::words::plural;

/// Version of the JSON that `haltwise prove --history` prints. In 1, inconclusive proofs were in the accuracy.
const OUTPUT_SCHEMA: u32 = 2;

pub(crate) const ABOUT: &[&str] = &[
    "In schema 1, inconclusive proofs were in the accuracy; this is schema 2.",
    "What is counted and why, and the file itself: [the ledger](ledger.md).",
];

figures! {
    pub(crate) struct Ledger {
        /// Version of this layout: 2.
        schema: u32 = Number,
        /// The file.
        path: String = Name,
        /// Lines that are no proof: cut short by a crash, or of a newer haltwise.
        unread: usize = Count,
        /// How accurate predictions were.
        summary: Summary = Record(Summary::FIGURES),
        /// The lines of the file.
        entries: Vec<Entry> = List(Entry::FIGURES),
    }
}

pub(crate) fn summary_of(path: &Path) -> Result<Summary, Failure> {
    Ok(Summary::of(&file::read(path)?.entries))
}

/// Reads a ledger: this one, or that of the user.
pub(crate) fn read(path: Option<&Path>) -> Result<Ledger, Failure> {
    let usual = place(&Root::host());
    let Some(path) = path.or(usual.as_deref()) else {
        let error = anyhow::anyhow!("find the ledger: neither XDG_STATE_HOME nor HOME is set");
        return Err(Failure::new(Exit::Usage, error).hint("name it: --ledger FILE"));
    };
    let file::Lines { entries, unread } = file::read(path)?;
    Ok(Ledger {
        schema: OUTPUT_SCHEMA,
        path: path.display().to_string(),
        unread,
        summary: Summary::of(&entries),
        entries,
    })
}

impl Ledger {
    pub(crate) fn print(&mut self, shown: &Shown) -> Outcome {
        shown.sort(&mut [&mut self.entries])?;
        shown.print(self, |top| document(self, top))?;
        Ok(Exit::of_partial(self.unread > 0))
    }
}

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
        pub(crate) unit: FigureUnit = Word,
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
            // A share of a share misleads: shares are compared in points alone.
            let share = kept.prediction.relative_error()?;
            (figure.unit() != FigureUnit::Percent).then_some(share.abs() * 100.0)
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

fn document(ledger: &Ledger, top: usize) -> Document {
    let mut document = Document::new();
    let path = Untrusted::from(&ledger.path);
    if ledger.entries.is_empty() {
        let text = " yet. `haltwise prove` adds one for every comparison of six rounds or more.";
        document.prose(prose!["No proof is in ", path, text]);
    } else {
        document.heading(prose!["Proofs in ", path]);
        let proofs = Rows::new("Proofs", &ledger.entries, top)
            .with("setting against setting", Unit::Name, |it| {
                format!("{} against {}", it.b.spec, it.a.spec)
            })
            .with("when", Unit::Name, |it| {
                it.utc.get(..16).unwrap_or(&it.utc).to_owned()
            })
            .with("verdict", Unit::Word, verdict)
            .show(&["rounds"])
            .with("within", Unit::Shown, within);
        document.table(proofs.finish());
        document.heading("Accuracy of predictions");
        accuracy(&mut document, &ledger.summary);
    }
    if ledger.unread > 0 {
        document.note(format!(
            "{} could not be read: truncated by a crash, or written by a newer haltwise.",
            plural(ledger.unread as u64, "line")
        ));
    }
    document
}

fn verdict(entry: &Entry) -> String {
    let verdict = match entry.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifference { .. } => "no difference",
        Verdict::TooNoisy { .. } => "too noisy",
        Verdict::TooFewRounds { .. } => "too few rounds",
    };
    let lost = if entry.lost > 0 { " (lost events)" } else { "" };
    format!("{verdict}{lost}")
}

fn within(entry: &Entry) -> String {
    let within = entry.predictions.iter();
    let within = within.filter(|kept| kept.prediction.within).count();
    if entry.is_judged() {
        format!("{within} of {}", entry.predictions.len())
    } else {
        "not judged".to_owned()
    }
}

pub(crate) fn accuracy(document: &mut Document, all: &Summary) {
    if all.predictions > 0 {
        document.prose(format!(
            "{} in {}; {} of the measured differences fell within the predicted interval, widened by \
             the noise: {} of them only because of the noise.",
            plural(all.predictions as u64, "prediction"),
            plural(all.proofs as u64, "proof"),
            percent(all.within as f64, all.predictions as f64),
            all.within_by_noise,
        ));
    }
    if all.inconclusive.proofs > 0 {
        document.prose(apart(all.inconclusive));
    }
    if all.predictions == 0 {
        return;
    }
    let part = |it: &FigureAccuracy| it.within as f64 / it.predictions.max(1) as f64;
    let value = |of: fn(&FigureAccuracy) -> f64| {
        move |it: &FigureAccuracy| figure::value(it.unit, of(it)).replace(' ', "")
    };
    let figures = Rows::new("Accuracy of past predictions", &all.figures, usize::MAX)
        .with("figure", Unit::Word, |it| figure::name(it.figure))
        .show(&["predictions"])
        .with("within", Unit::Share, part)
        .with("width", Unit::Shown, value(|it| it.width_p50))
        .with("error p50", Unit::Shown, value(|it| it.error_p50))
        .with("p90", Unit::Shown, value(|it| it.error_p90))
        .show(&["relative_p50_percent", "relative_p90_percent"]);
    document.table(figures.finish());
    document.prose(
        "Width: median width of the predicted interval, widened by the noise on both sides. Error: \
         absolute difference of predicted and measured; in % of the measured value, where that is not \
         zero.",
    );
}

/// Proofs that test no prediction.
fn apart(inconclusive: Inconclusive) -> String {
    let were = if inconclusive.proofs == 1 {
        "was"
    } else {
        "were"
    };
    format!(
        "Not counted: {} in {} that {were} too noisy to decide, or of a host under CPU pressure; {} of them fell within \
         the interval.",
        plural(inconclusive.predictions as u64, "prediction"),
        plural(inconclusive.proofs as u64, "proof"),
        inconclusive.within,
    )
}

#[cfg(test)]
mod test;
