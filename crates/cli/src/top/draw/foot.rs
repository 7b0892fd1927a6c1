//! The lines below: keys or the filter that is typed, and last of all what was lost.

use std::collections::BTreeMap;

use haltwise_core::event::Observable;
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::ALARM;
use crate::number::count;
use crate::page::{Page, harmless};
use crate::pilot_state::text;
use crate::top::columns::{Table, fitting};
use crate::top::figures::EMULATED;
use crate::top::model::{Model, Screen};
use crate::top::piloted;
use crate::top::rows::{TopRow, paused};
use crate::top::step::{lost_by_place, lost_count};
use crate::words::plural;

pub(super) fn lines(model: &Model, rows: &[TopRow], width: u16) -> Vec<Line<'static>> {
    let above = if model.typing.is_some() {
        format!("Filter: {}_  (Enter keeps it, Esc drops it)", model.filter).bold()
    } else {
        keys(model, width.into()).dim()
    };
    vec![above.into(), losses(model, rows)]
}

/// The keys that matter here, as many as fit; those of help and of the end always.
fn keys(model: &Model, width: usize) -> String {
    let time = if model.origin.is_live() {
        ["Space pause", "Left Right time"]
    } else {
        ["Space play", "Left Right time"]
    };
    let here: &[&str] = match model.screen {
        Screen::Host => &["Enter open", "/ filter", "< > sort", "r reverse"],
        Screen::Vm(_) => &["Enter open", "Esc back", "< > sort", "r reverse"],
        Screen::Vcpu(..) => &["Esc back", "Up Down others"],
    };
    let (first, rest) = here.split_at(here.len().min(2));
    let filter = format!("`{}` Esc all", model.filter);
    let filtered = (!model.filter.is_empty()).then_some(filter.as_str());
    let all = filtered.into_iter().chain(first.iter().copied());
    let all = all.chain(time).chain(rest.iter().copied());
    let always = "? help  q quit";
    let mut line = String::new();
    for key in all {
        if line.width() + key.width() + 2 + always.len() > width {
            break;
        }
        line.push_str(key);
        line.push_str("  ");
    }
    line + always
}

pub(super) fn pilot(rows: &[TopRow], width: usize) -> String {
    let said = rows.iter().filter_map(|row| {
        let first = text::name(&row.name, width);
        Some(piloted::paragraph(&first, row.pilot.as_ref()?, width))
    });
    let said: String = said.collect();
    if said.is_empty() {
        return said;
    }
    let mut page = Page::new(width);
    page.wrapped("  ", text::SAVED, 4);
    page.gap();
    format!("\nPilot\n{said}{}", page.finish())
}

/// Why figures of the table are not known, each reason with its columns.
pub(super) fn dashes(model: &Model, rows: &[TopRow], width: usize) -> String {
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (column, _) in fitting(Table::Vms, model.there(), width) {
        if let Some(reason) = column.why_dash(rows, &model.origin) {
            let titles = reasons.entry(reason).or_default();
            titles.push(column.title(Table::Vms));
        }
    }
    let mut page = Page::new(width);
    for (reason, titles) in reasons {
        page.wrapped("", &format!("- {}: {reason}", titles.join(", ")), 2);
    }
    page.finish()
}

pub(super) fn losses(model: &Model, rows: &[TopRow]) -> Line<'static> {
    let mut said = Vec::new();
    let mut alarm = false;
    if let Some(step) = model.step() {
        let places: Vec<String> = lost_by_place(&step.around.lost)
            .into_iter()
            .map(|(place, n)| format!("{} ({})", plural(n, "event"), harmless(place)))
            .collect();
        if places.is_empty() {
            said.push("Lost: nothing".to_owned());
        } else {
            alarm = true;
            let here = match lost_count(&step.lost) {
                0 => String::new(),
                n => format!(", {} of them now", count(n)),
            };
            said.push(format!("Lost: {}{here}", places.join(", ")));
        }
        let vms = step.around.vms.iter();
        let hidden = vms.filter(|vm| vm.observable != Observable::Yes).count();
        let mut exits = rows.iter().filter_map(|row| row.figures.exits.as_ref());
        if exits.any(|exits| exits.counts == EMULATED) {
            said.push("exits: instructions emulated, for which kvm_exit does not fire".to_owned());
        }
        if hidden > 0 {
            said.push(format!("{} not observable", plural(hidden as u64, "VM")));
        }
        let vms = step.around.vms.iter();
        let paused = vms.filter(|vm| paused(step, vm) == Some(true)).count();
        if paused > 0 {
            said.push(format!("{} not running", plural(paused as u64, "VM")));
        }
    }
    let missing: Vec<String> = (model.origin.missing.iter())
        .map(|missing| harmless(&missing.field))
        .collect();
    if !missing.is_empty() {
        said.push(format!("not recorded: {}", missing.join(", ")));
    }
    said.extend(model.origin.notes.iter().map(|note| harmless(note)));
    let style = if alarm || model.origin.partial {
        ALARM
    } else {
        Style::new().dim()
    };
    Span::styled(said.join("; "), style).into()
}
