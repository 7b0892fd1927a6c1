//! Where the threads of VMMs spent their time: a flame graph, and the symbols that were hit most.

use super::table::{Is, Table, cell, number};
use super::{note, p};
use crate::html::chart::bars;
use crate::html::chart::flame::{KINDS, flame};
use crate::html::content::Content;
use crate::html::markup::{Element, Markup, el, name};
use crate::number::share;
use crate::profile::view::{Part, View};
use crate::words::plural;

/// Rows of a table.
const ROWS: usize = 15;

/// The section. `None` where no samples were taken.
pub(super) fn profile(content: &Content) -> Option<Markup> {
    let (view, tree) = content.profile.as_ref()?;
    let samples = plural(view.total.samples, "sample");
    let text = format!(
        "{samples} of {} at {} Hz. Callers stand above what they call; wider is more.",
        view.event, view.recording.hz
    );
    let label =
        format!("Flame graph of {samples}; the symbols that were hit most are in the table");
    let graph = el("div")
        .class("scroll flame")
        .attr("tabindex", 0)
        .attr("role", "region")
        .attr("aria-label", "Flame graph")
        .with(flame(tree, &label));
    let mut out = Markup::none()
        .and(p(text))
        .and(bars::legend(KINDS))
        .and(graph)
        .and(
            el("div")
                .class("two")
                .with(el("div").with(parts("By area", "area", &view.areas)))
                .with(el("div").with(symbols(view))),
        );
    let beside = "Boxes too narrow to see are left out; `haltwise profile --svg` has them.";
    out.push(note(beside));
    Some(out)
}

fn parts(caption: &str, first: &'static str, parts: &[Part]) -> Element {
    let columns = [
        (Is::Text, first),
        (Is::Number, "share"),
        (Is::Number, "samples"),
    ];
    let mut table = Table::new(caption, &columns);
    for part in parts.iter().take(ROWS) {
        let of_all = part.share.unwrap_or(0.0);
        table.row(vec![
            cell(name(&part.name)),
            number(of_all, share(of_all)),
            number(part.samples as f64, part.samples.to_string()),
        ]);
    }
    table.finish()
}

fn symbols(view: &View) -> Element {
    let columns = [
        (Is::Text, "symbol"),
        (Is::Number, "itself"),
        (Is::Number, "with what it calls"),
    ];
    let mut table = Table::new("Symbols that were hit most", &columns);
    for symbol in view.symbols.iter().take(ROWS) {
        let of = |part: &Part| {
            let of_all = part.share.unwrap_or(0.0);
            number(of_all, share(of_all))
        };
        table.row(vec![
            cell(name(&symbol.own.name)),
            of(&symbol.own),
            of(&symbol.all),
        ]);
    }
    table.finish()
}
