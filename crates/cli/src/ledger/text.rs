//! The ledger on a page: proof by proof, and how good predictions were.

use haltwise_core::prove::compare::Verdict;

use super::Ledger;
use super::summary::{Inconclusive, Summary};
use crate::number::{percent, share};
use crate::page::{Page, Stands, harmless};
use crate::proof::figure;
use crate::proof::ledger::entry::Entry;
use crate::words::plural;

pub(super) fn render(ledger: &Ledger, width: usize) -> String {
    let mut page = Page::new(width);
    if ledger.entries.is_empty() {
        page.wrapped(
            "",
            &format!(
                "No proof is in {} yet. `haltwise prove` adds one for every comparison of six rounds \
                 or more.",
                harmless(&ledger.path)
            ),
            0,
        );
    } else {
        proofs(&mut page, ledger);
        summary(&mut page, ledger);
    }
    if ledger.unread > 0 {
        page.gap();
        let text = format!(
            "{} could not be read: truncated by a crash, or written by a newer haltwise.",
            plural(ledger.unread as u64, "line")
        );
        page.wrapped("  ", &text, 2);
    }
    page.finish()
}

fn proofs(page: &mut Page, ledger: &Ledger) {
    page.heading(&format!("Proofs in {}", harmless(&ledger.path)));
    let head = ["", "when", "verdict on B", "rounds", "within"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(ledger.entries.iter().map(row));
    let stands = [
        Stands::Left,
        Stands::Left,
        Stands::Left,
        Stands::Right,
        Stands::Right,
    ];
    page.table(2, &stands, &rows);
}

fn row(entry: &Entry) -> Vec<String> {
    let within = entry.predictions.iter();
    let within = within.filter(|kept| kept.prediction.within).count();
    let verdict = match entry.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifference { .. } => "no difference",
        Verdict::TooNoisy { .. } => "too noisy",
        Verdict::TooFewRounds { .. } => "too few rounds",
    };
    let lost = if entry.lost > 0 { " (lost events)" } else { "" };
    let minute = entry.utc.get(..16).unwrap_or(&entry.utc);
    vec![
        harmless(&format!("{} against {}", entry.b.spec, entry.a.spec)),
        harmless(minute),
        format!("{verdict}{lost}"),
        entry.rounds.to_string(),
        if entry.verdict.is_conclusive() {
            format!("{within} of {}", entry.predictions.len())
        } else {
            "not judged".to_owned()
        },
    ]
}

fn summary(page: &mut Page, ledger: &Ledger) {
    let all = &ledger.summary;
    page.heading("Accuracy of predictions");
    if all.predictions > 0 {
        let text = format!(
            "{} in {}; {} of the measured differences fell within the predicted interval, widened by \
             the noise: {} of them only because of the noise.",
            plural(all.predictions as u64, "prediction"),
            plural(all.proofs as u64, "proof"),
            percent(all.within as f64, all.predictions as f64),
            all.within_by_noise,
        );
        page.wrapped("  ", &text, 2);
    }
    if all.inconclusive.proofs > 0 {
        page.wrapped("  ", &apart(all.inconclusive), 2);
    }
    if all.predictions == 0 {
        return;
    }
    figures(page, all);
}

/// Proofs that test no prediction.
pub(crate) fn apart(inconclusive: Inconclusive) -> String {
    format!(
        "Not counted: {} in {} that {} too noisy to decide, of which {} fell within an interval that \
         the noise made too wide to test anything.",
        plural(inconclusive.predictions as u64, "prediction"),
        plural(inconclusive.proofs as u64, "proof"),
        if inconclusive.proofs == 1 {
            "was"
        } else {
            "were"
        },
        inconclusive.within,
    )
}

fn figures(page: &mut Page, all: &Summary) {
    page.gap();
    let head = [
        "",
        "n",
        "within",
        "width",
        "error p50",
        "p90",
        "p50, %",
        "p90, %",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for one in &all.figures {
        let relative = |percent: Option<f64>| {
            percent.map_or_else(|| "-".to_owned(), |percent| share(percent / 100.0))
        };
        rows.push(vec![
            figure::name(one.figure).to_owned(),
            one.predictions.to_string(),
            percent(one.within as f64, one.predictions as f64),
            figure::value(one.unit, one.width_p50),
            figure::value(one.unit, one.error_p50),
            figure::value(one.unit, one.error_p90),
            relative(one.relative_p50_percent),
            relative(one.relative_p90_percent),
        ]);
    }
    let mut stands = [Stands::Right; 8];
    stands[0] = Stands::Left;
    page.table(2, &stands, &rows);
    page.gap();
    page.wrapped(
        "  ",
        "Width: median width of the predicted interval, widened by the noise on both sides. Error: \
         absolute difference of predicted and measured; in % of the measured value, where that is not \
         zero.",
        2,
    );
}
