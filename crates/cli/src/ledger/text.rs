//! The ledger on a page: proof by proof, and how good predictions were.

use haltwise_core::prove::compare::Verdict;

use super::Ledger;
use super::entry::Entry;
use crate::number::{percent, share};
use crate::page::{Page, Stands, harmless};
use crate::prove::text::figure;
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
            "{} could not be read: cut short by a crash, or written by a newer haltwise.",
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
        format!("{within} of {}", entry.predictions.len()),
    ]
}

fn summary(page: &mut Page, ledger: &Ledger) {
    let all = &ledger.summary;
    page.heading("How good predictions were");
    let text = format!(
        "{} in {}; {} of the measured differences fell within the predicted interval, widened by the \
         noise.",
        plural(all.predictions as u64, "prediction"),
        plural(all.proofs as u64, "proof"),
        percent(all.within as f64, all.predictions as f64),
    );
    page.wrapped("  ", &text, 2);
    page.gap();
    let head = [
        "",
        "predicted",
        "within",
        "half off by",
        "9 in 10",
        "half, %",
        "9 in 10",
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
            figure::value(one.unit, one.error_p50),
            figure::value(one.unit, one.error_p90),
            relative(one.relative_p50_percent),
            relative(one.relative_p90_percent),
        ]);
    }
    let mut stands = [Stands::Right; 7];
    stands[0] = Stands::Left;
    page.table(2, &stands, &rows);
    page.gap();
    page.wrapped(
        "  ",
        "Off by: predicted less measured, without its sign; in % of what was measured, where that is \
         not zero.",
        2,
    );
}
