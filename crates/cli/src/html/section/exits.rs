//! Exits: what made guests exit and what that cost, with what each was about, and how long each took.

use haltwise_core::exit::Kind;
use haltwise_core::exit::account::Tally;
use haltwise_core::hist::LogHist;

use super::table::{Cell, Is, Table, cell, maybe, number};
use super::{details, note, p};
use crate::exits::view::ReasonView;
use crate::exits::words::{NONE_SEEN, passed};
use crate::html::chart::bars;
use crate::html::chart::distribution::{Series, distribution};
use crate::html::content::{Content, Exits};
use crate::html::markup::{Element, Markup, el, name, short};
use crate::number::{count, nanos, nanos_f64, scaled, share};
use crate::words::plural;

/// Reasons that open with a figure of their times: those that cost most.
const FIGURES: usize = 12;

/// Rows of sub-keys under a reason.
const SUBS: usize = 20;

const COLUMNS: [(Is, &str); 9] = [
    (Is::Text, "reason"),
    (Is::Bar, "share of the cost"),
    (Is::Number, "share"),
    (Is::Number, "count"),
    (Is::Number, "per second"),
    (Is::Number, "time"),
    (Is::Number, "in the VMM"),
    (Is::Number, "median"),
    (Is::Number, "p99"),
];

/// The section. `None` where exits were not recorded.
pub(super) fn exits(content: &Content) -> Option<Markup> {
    let exits = content.exits.as_ref()?;
    let view = &exits.view;
    let total = &view.total;
    let mut out = Markup::none();
    if total.exits == 0 {
        out.push(p(NONE_SEEN));
        out.push(p(format!("Counted: {}.", passed(total))));
    } else {
        out = seen(exits);
    }
    if !view.userspace.is_empty() {
        let mut table = Table::new("Returns to the VMM", &COLUMNS).sortable("exit-vmm");
        view.userspace.iter().for_each(|row| table.row(cells(row)));
        out.push(details("Returns to the VMM", table.finish()));
    }
    let groups = (total.exits > 0).then(|| by_vm(exits)).flatten();
    Some(out.and(groups).and(what_is_missing(exits)))
}

/// What they cost together, and each reason.
fn seen(exits: &Exits) -> Markup {
    let view = &exits.view;
    let total = &view.total;
    let span_ns = view.recording.duration_ns.max(1) as f64;
    let text = format!(
        "{}, of which {} by which a guest halted. They took the host {}, {} of a CPU; {} of it in the VMM. \
         Sleep is no work of the host and is left out.",
        plural(total.exits, "exit"),
        count(total.halt_exits),
        nanos(total.host_ns),
        share(total.host_ns as f64 / span_ns),
        nanos(total.user_ns),
    );
    let mut out = Markup::none().and(p(text));
    out.push(el("div").attr("id", "exit-search").flag("hidden"));
    let mut reasons = Table::new("Exits by reason", &COLUMNS).sortable("exit-reasons");
    view.reasons.iter().for_each(|row| reasons.row(cells(row)));
    out.push(reasons.finish());
    out.push(el("div").class("drill").with_all(drill(exits)));
    out
}

fn cells(row: &ReasonView) -> Vec<Cell> {
    let part = row.share.unwrap_or(0.0);
    let spread = |of: fn(&haltwise_core::account::Spread) -> u64| {
        maybe(
            row.spread_ns.as_ref().map(|spread| of(spread) as f64),
            nanos_f64,
        )
    };
    vec![
        cell(
            name(&row.name).and(
                row.sub_name
                    .as_deref()
                    .map(|sub| Markup::text(" ").and(name(sub))),
            ),
        ),
        number(part, bars::length(part, 1.0, "s-exit")),
        maybe(row.share, share),
        number(row.count as f64, count(row.count)),
        number(row.per_second, scaled(row.per_second)),
        number(row.host_ns as f64, nanos(row.host_ns)),
        number(row.user_ns as f64, nanos(row.user_ns)),
        spread(|spread| spread.p50),
        spread(|spread| spread.p99),
    ]
}

/// Each reason with how long it took, and what it was about.
fn drill(exits: &Exits) -> Vec<Element> {
    let view = &exits.view;
    let names = exits.loaded.recorded.names();
    let tallies = &exits.loaded.account.causes;
    let reasons = view.reasons.iter().take(FIGURES);
    reasons
        .filter_map(|row| {
            let mut found = tallies.iter().filter(|(cause, _)| {
                cause.kind == row.kind && cause.isa == row.isa && cause.reason == row.reason
            });
            let (cause, tally) = found.next()?;
            debug_assert_eq!(cause.name(&names), row.name);
            let about: Vec<&ReasonView> = (view.subs.iter())
                .filter(|sub| sub.isa == row.isa && sub.reason == row.reason && sub.kind.is_sub())
                .collect();
            let figure = times(row, tally);
            if figure.is_none() && about.is_empty() {
                return None;
            }
            let summary = Markup::from(el("b").with(name(&row.name))).and(format!(
                ": {}, {}",
                plural(row.count, "exit"),
                nanos(row.host_ns)
            ));
            Some(details(
                summary,
                Markup::none().and(figure).and(subs(&about)),
            ))
        })
        .collect()
}

fn times(row: &ReasonView, tally: &Tally) -> Option<Element> {
    let hist: &LogHist = &tally.handling_ns;
    if row.is_halt || hist.count() == 0 {
        return None;
    }
    let series = [Series {
        name: "time",
        class: "s-exit",
        hist,
    }];
    let label = format!("times of {}", short(&row.name));
    let chart = distribution(&label, &series, &[])?;
    let caption = "from the exit to the next entry, or to the return to the VMM's end";
    Some(
        el("figure")
            .with(chart)
            .with(el("figcaption").with(caption)),
    )
}

fn subs(about: &[&ReasonView]) -> Option<Element> {
    if about.is_empty() {
        return None;
    }
    let mut table = Table::new("What they were about", &COLUMNS);
    about
        .iter()
        .take(SUBS)
        .for_each(|row| table.row(cells(row)));
    Some(table.finish())
}

fn by_vm(exits: &Exits) -> Option<Element> {
    let groups = &exits.view.groups;
    if groups.len() < 2 {
        return None;
    }
    let mut table = Table::new(
        "Exits by VM, but those by which guests halted",
        &[
            (Is::Text, "VM"),
            (Is::Number, "exits"),
            (Is::Number, "halts"),
            (Is::Number, "time"),
            (Is::Number, "in the VMM"),
            (Is::Number, "interrupts injected"),
        ],
    );
    for group in groups {
        let vm = group
            .vm_name
            .as_deref()
            .map_or_else(|| Markup::text("not known"), name);
        table.row(vec![
            cell(vm),
            number(group.exits as f64, count(group.exits)),
            number(group.halt_exits as f64, count(group.halt_exits)),
            number(group.time_ns as f64, nanos(group.time_ns)),
            number(group.user_ns as f64, nanos(group.user_ns)),
            number(group.injections as f64, count(group.injections)),
        ]);
    }
    Some(details("By VM", table.finish()))
}

fn what_is_missing(exits: &Exits) -> Option<Element> {
    let total = &exits.view.total;
    let mut said = Vec::new();
    if total.untimed > 0 {
        said.push(format!(
            "the time of {} is not known",
            plural(total.untimed, "exit")
        ));
    }
    if total.other > 0 {
        said.push(format!(
            "{} found no room in the recorder's table",
            plural(total.other, "exit")
        ));
    }
    if !exits.view.recording.only_reasons.is_empty() {
        let only: Vec<String> = exits
            .view
            .recording
            .only_reasons
            .iter()
            .map(|it| short(it))
            .collect();
        said.push(format!(
            "only these reasons were recorded: {}",
            only.join(", ")
        ));
    }
    if exits.view.reasons.iter().any(|row| row.kind == Kind::Other) {
        said.push("`other` holds those that were not told apart".to_owned());
    }
    (!said.is_empty()).then(|| note(format!("Of these, {}.", said.join("; "))))
}
