//! Exits: what made guests exit and what that cost, with what each was about, and how long each took; and where the
//! threads of VMMs spent their time.

use haltwise_core::exit::account::Tally;
use haltwise_document::{Document, html};

use crate::exits::page;
use crate::exits::view::ExitReason;
use crate::html::chart::{Series, bars, distribution, figure};
use crate::html::content::{Content, Exits};
use crate::html::markup::{Element, Markup, el, name, short};
use crate::html::section::{details, note, p};
use crate::number::nanos;
use crate::profile::flame::{KINDS, WIDTH, flame};
use crate::profile::page::{areas, symbols};
use crate::words::plural;

/// Reasons that open with a figure of their times: those that cost most.
const FIGURES: usize = 12;

const SUBS: usize = 20;

/// The section. `None` where exits were not recorded.
pub(super) fn exits(content: &Content) -> Option<Markup> {
    let exits = content.exits.as_ref()?;
    let view = &exits.view;
    let table = |caption, rows, id| {
        let rows = page::reasons(caption, rows, usize::MAX).sortable(id);
        html::table(&rows.bar("share", "s-exit").finish())
    };
    let mut opening = Document::new();
    page::summary(&mut opening, view);
    page::halted(&mut opening, view);
    let mut out = html::render(&opening);
    if view.total.exits > 0 {
        out.push(el("div").attr("id", "exit-search").flag("hidden"));
        out.push(table("Exits by reason", &view.reasons, "exit-reasons"));
        out.push(el("div").class("drill").with_all(drill(exits)));
    }
    if !view.userspace.is_empty() {
        let caption = "Returns to the VMM";
        out.push(details(
            caption,
            table(caption, &view.userspace, "exit-vmm"),
        ));
    }
    if view.total.exits > 0 && view.groups.len() > 1 {
        let table = html::table(&page::groups(&view.groups, usize::MAX));
        out.push(details("By VM", table));
    }
    let mut notes = Document::new();
    page::notes(&mut notes, view);
    Some(out.and(html::render(&notes)))
}

fn drill(exits: &Exits) -> Vec<Element> {
    let view = &exits.view;
    let tallies = &exits.loaded.account.causes;
    let reasons = view.reasons.iter().take(FIGURES);
    reasons
        .filter_map(|row| {
            let mut found = tallies.iter().filter(|(cause, _)| {
                cause.kind == row.kind && cause.isa == row.isa && cause.reason == row.reason
            });
            let (_, tally) = found.next()?;
            let about = view.subs.iter();
            let mut about = about
                .filter(|sub| sub.isa == row.isa && sub.reason == row.reason)
                .peekable();
            let figure = times(row, tally);
            let subs = about.peek().is_some();
            let subs = subs.then(|| html::table(&page::subs(about, SUBS)));
            if figure.is_none() && subs.is_none() {
                return None;
            }
            let cost = format!(": {}, {}", plural(row.count, "exit"), nanos(row.host_ns));
            let summary = Markup::from(el("b").with(name(&row.name))).and(cost);
            Some(details(summary, Markup::none().and(figure).and(subs)))
        })
        .collect()
}

fn times(row: &ExitReason, tally: &Tally) -> Option<Element> {
    let hist = &tally.handling_ns;
    if row.is_halt || hist.count() == 0 {
        return None;
    }
    let series = [Series {
        name: "time",
        class: "s-exit",
        hist,
    }];
    let label = format!("times of {}", short(&row.name));
    let chart = distribution(&label, &series, 0)?;
    let caption = "from the exit to the next entry, or to the return to the VMM's end";
    let caption = el("figcaption").with(caption);
    Some(el("figure").with(chart).with(caption))
}

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
    let tables = [areas(view, ROWS), symbols(view, ROWS)];
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
