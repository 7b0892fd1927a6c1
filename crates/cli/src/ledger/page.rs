//! A ledger as shown: proof by proof, and how accurate predictions were.

use haltwise_core::prove::compare::Verdict;
use haltwise_document::{Document, Rows, Unit, Untrusted, prose};

use super::Ledger;
use super::summary::{FigureAccuracy, Inconclusive, Summary};
use crate::number::percent;
use crate::proof::figure;
use crate::proof::ledger::entry::Entry;
use crate::words::plural;

pub(crate) fn document(ledger: &Ledger, top: usize) -> Document {
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
