//! Where the threads of VMMs spent their time: a flame graph, and the symbols that were hit most.

use haltwise_document::html;

use super::{note, p};
use crate::html::chart::{bars, figure};
use crate::html::content::Content;
use crate::html::markup::{Markup, el};
use crate::profile::flame::{KINDS, WIDTH, flame};
use crate::profile::page;
use crate::words::plural;

const ROWS: usize = 15;

/// The section. `None` where no samples were taken.
pub(super) fn profile(content: &Content) -> Option<Markup> {
    let (view, tree) = content.profile.as_ref()?;
    let samples = plural(view.total.samples, "sample");
    let text = format!(
        "{samples} of {} at {} Hz. Callers are above what they call; wider is more.",
        view.event, view.recording.hz
    );
    let label =
        format!("Flame graph of {samples}; the symbols that were hit most are in the table");
    let drawn = flame(tree);
    let graph = el("div")
        .class("scroll flame")
        .attr("tabindex", 0)
        .attr("role", "region")
        .attr("aria-label", "Flame graph")
        .with(figure(WIDTH, drawn.height, &label).with(drawn.boxes));
    let tables = [page::areas(view, ROWS), page::symbols(view, ROWS)];
    let tables = tables
        .iter()
        .map(|table| el("div").with(html::table(table)));
    let search = el("p").attr("id", "flame-search").flag("hidden");
    let out = Markup::none()
        .and(p(text))
        .and(bars::legend(KINDS))
        .and(p("A click on a box zooms to it.").class("needs-script"))
        .and(search)
        .and(graph)
        .and(el("div").class("two").with_all(tables));
    let beside =
        "Boxes too narrow to see are left out; `haltwise report --profile --folded` has them.";
    Some(out.and(note(beside)))
}
