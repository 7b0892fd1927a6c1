//! This capture against another: what differs around the figures, and the figures that differ by more
//! than chance.

use haltwise_core::diff::judge::Verdict;
use haltwise_core::tune::interval::Interval;

use super::table::{Is, Table, cell, number};
use super::{details, note, p};
use crate::diff::text as said;
use crate::diff::view::{CaptureView, ComparisonView, View};
use crate::html::chart::interval::interval;
use crate::html::content::Content;
use crate::html::markup::{Element, Markup, el, name, short};
use crate::number::nanos;
use crate::words::plural;

/// Rows of a table.
const MOST: usize = 200;

/// Names of VMs that only one has.
const NAMES: usize = 12;

/// The section. `None` if nothing was to be compared.
pub(super) fn diff(content: &Content) -> Option<Markup> {
    let view = content.diff.as_ref()?;
    let title = format!(
        "{} of {} figures differ significantly",
        view.different, view.compared
    );
    let mut out = Markup::none()
        .and(capture("A, this one", &view.a))
        .and(capture("B, the other", &view.b))
        .and(whose(view))
        .and(circumstances(view))
        .and(el("h3").with(title));
    let of = |verdict: Verdict| -> Vec<&ComparisonView> {
        view.comparisons
            .iter()
            .filter(|row| row.verdict == verdict)
            .collect()
    };
    let different = of(Verdict::Different);
    if different.is_empty() {
        let why = said::nothing(view).replace(" --all shows", " Below is");
        out.push(p(why));
    } else {
        out.push(table(view, "Figures that differ", &different));
    }
    for (verdict, title) in [
        (Verdict::MayBeChance, "Not significant"),
        (Verdict::TooShort, "Too short to compare"),
        (Verdict::NotTold, "Not in both captures"),
    ] {
        let rows = of(verdict);
        if !rows.is_empty() {
            let title = format!("{title}: {}", plural(rows.len() as u64, "figure"));
            out.push(details(title.clone(), table(view, &title, &rows)));
        }
    }
    let beside = "The captures are from different times, so any other change on the host is included. \
                  If nothing differed, 95 of 100 such comparisons would list no figure (Holm's \
                  correction). `haltwise prove` measures two settings alternately.";
    Some(out.and(note(beside)))
}

fn capture(which: &str, view: &CaptureView) -> Element {
    let mut lost = Vec::new();
    if view.lost > 0 {
        lost.push(format!("; {} lost", plural(view.lost, "event")));
    }
    if view.cut {
        lost.push("; cut off".to_owned());
    }
    if view.damaged {
        lost.push("; damaged".to_owned());
    }
    el("p")
        .with(el("b").with(format!("{which}: ")))
        .with(name(&view.path))
        .with(", ")
        .with(name(&view.host))
        .with(format!(
            ", {} of {} in {}{}",
            plural(view.halts, "halt"),
            plural(view.vms as u64, "VM"),
            nanos(view.duration_ns),
            lost.concat()
        ))
}

/// Which VM figures are of, if they are of one.
fn whose(view: &View) -> Option<Element> {
    let vm = said::whose(view)?;
    Some(el("p").with("Figures are of ").with(name(vm)).with("."))
}

fn circumstances(view: &View) -> Markup {
    let mut rows = Table::new(
        "Differences in setup",
        &[(Is::Text, "what"), (Is::Text, "A"), (Is::Text, "B")],
    );
    for it in &view.circumstances {
        rows.row(vec![
            cell(short(&it.what)),
            cell(short(&it.a)),
            cell(short(&it.b)),
        ]);
    }
    let mut out = if rows.is_empty() {
        p(
            "Recorded conditions are equal: one host, kernel, source and mode, the \
           same settings.",
        )
        .into()
    } else {
        Markup::from(rows.finish())
    };
    for (which, names) in [("A", &view.only_a), ("B", &view.only_b)] {
        if !names.is_empty() {
            let more = names.len().saturating_sub(NAMES);
            let shown: Vec<String> = names.iter().take(NAMES).map(|it| short(it)).collect();
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            out.push(p(format!("Only in {which}: {}{more}.", shown.join(", "))));
        }
    }
    out
}

fn table(view: &View, caption: &str, rows: &[&ComparisonView]) -> Element {
    let several = said::is_of_several(view);
    let mut table = Table::new(
        caption,
        &[
            (Is::Text, "figure"),
            (Is::Number, "A"),
            (Is::Number, "B"),
            (Is::Number, "change"),
            (Is::Number, "B - A, 95 % CI"),
            (Is::Bar, "about zero"),
        ],
    );
    for row in rows.iter().take(MOST) {
        let drawn = row.difference.filter(Interval::is_known).map(|it| {
            let size = row.a.map_or(0.0, |a| a.estimate.abs());
            let reach = it.low.abs().max(it.high.abs()).max(size);
            interval(it.value, it.low, it.high, reach)
        });
        table.row(vec![
            cell(short(&said::name(row, several))),
            cell(said::value(row.a, row.unit)),
            cell(said::value(row.b, row.unit)),
            number(row.size, said::change(row)),
            cell(said::interval(row)),
            cell(Markup::from(drawn)),
        ]);
    }
    table.finish()
}
