//! The view on a screen.

use haltwise_core::profile::{Event, Space};

use super::view::{ExitView, GroupView, Part, SymbolView, View};
use crate::chart::stacked;
use crate::number::{count, nanos, scaled, share};
use crate::page::{Page, Stands, harmless};
use crate::words::{self, plural};

/// Which table is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// The whole page.
    Page,
    /// By area.
    Areas,
    /// By exit.
    Exits,
    /// By symbol.
    Symbols,
    /// By VM, vCPU, thread or module.
    Groups,
}

/// What to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Columns of the screen.
    pub(crate) width: usize,
    pub(crate) table: Table,
    /// Rows of a table; the rest is summed up.
    pub(crate) rows: usize,
}

/// Lays the page out.
pub(crate) fn render(view: &View, options: Options) -> String {
    let mut page = Page::new(options.width);
    opening(&mut page, view);
    let rows = options.rows;
    if view.total.samples > 0 {
        match options.table {
            Table::Page => {
                if view.groups.len() > 1 {
                    page.heading("By VM");
                    groups(&mut page, view, rows);
                }
                page.heading("What it was busy with");
                areas(&mut page, view, rows);
                page.heading("By exit");
                exits(&mut page, view, rows);
                page.heading("Symbols");
                symbols(&mut page, view, rows);
            }
            Table::Areas => areas(&mut page, view, rows),
            Table::Exits => exits(&mut page, view, rows),
            Table::Symbols => symbols(&mut page, view, rows),
            Table::Groups => groups(&mut page, view, rows),
        }
    }
    closing(&mut page, view);
    page.finish()
}

/// A weight in its unit.
fn weight(view: &View, weight: u64) -> String {
    match view.event {
        Event::CpuClock => nanos(weight),
        _ => scaled(weight as f64),
    }
}

fn opening(page: &mut Page, view: &View) {
    let (recording, total) = (&view.recording, &view.total);
    page.wrapped(
        &format!("{}: ", harmless(&recording.host)),
        &format!(
            "{} of {} of {} in {}, at {} Hz, Linux {}",
            plural(total.samples, "sample"),
            view.event,
            plural(recording.vms as u64, "VM"),
            nanos(recording.duration_ns),
            recording.hz,
            harmless(&recording.kernel),
        ),
        2,
    );
    if total.samples == 0 {
        page.wrapped("  ", "Nothing was sampled: no VMM ran.", 2);
        return;
    }
    let within = share(total.scatter);
    let all = match view.event {
        Event::CpuClock => {
            let seconds = recording.duration_ns.max(1) as f64;
            let cpus = share(total.weight as f64 / seconds);
            format!(
                "{} of CPU time within {within}: {cpus} of one CPU",
                nanos(total.weight)
            )
        }
        _ => format!(
            "{} {} within {within}",
            scaled(total.weight as f64),
            view.unit
        ),
    };
    page.wrapped("  ", &all, 2);
    sides(page, &view.sides);
    for other in &view.beside {
        let text = format!(
            "{}: {} {} in {}",
            other.event,
            scaled(other.weight as f64),
            other.unit,
            plural(other.samples, "sample")
        );
        page.wrapped("  ", &text, 2);
    }
}

/// Guest, kernel and VMM as one bar.
fn sides(page: &mut Page, sides: &[Part]) {
    let mark = |name: &str| match name {
        "guest" => 'g',
        "kernel" => 'k',
        "VMM" => 'v',
        _ => '?',
    };
    let parts: Vec<(char, u64)> = sides
        .iter()
        .map(|side| (mark(&side.name), side.weight))
        .collect();
    page.line(&format!("  {}", stacked(&parts, page.width() - 2)));
    let said: Vec<String> = sides
        .iter()
        .map(|side| format!("{} {} {}", mark(&side.name), side.name, percent(side.share)))
        .collect();
    page.wrapped("  ", &said.join("   "), 2);
}

fn percent(of: Option<f64>) -> String {
    of.map_or_else(|| "-".to_owned(), share)
}

fn tight(of: Option<f64>) -> String {
    percent(of).replace(' ', "")
}

/// `33.7-36.5%`
fn interval(part: &Part) -> String {
    match (part.low, part.high) {
        (Some(low), Some(high)) => {
            let low = share(low).replace([' ', '%'], "");
            format!("{low}-{}", share(high).replace(' ', ""))
        }
        _ => "-".to_owned(),
    }
}

fn table(page: &mut Page, names: usize, head: &[&str], rows: Vec<Vec<String>>) {
    let mut cells = vec![head.iter().map(|name| (*name).to_owned()).collect()];
    cells.extend(rows);
    let mut stands = vec![Stands::Left; names];
    stands.resize(head.len(), Stands::Right);
    page.table(0, &stands, &cells);
}

fn more(page: &mut Page, rows: usize, most: usize) {
    if rows > most {
        let text = format!("and {} more (--all shows all)", count((rows - most) as u64));
        page.wrapped("  ", &text, 2);
    }
}

/// What a weight's column is called.
fn weighed(view: &View) -> &'static str {
    match view.event {
        Event::CpuClock => "time",
        _ => view.unit,
    }
}

fn areas(page: &mut Page, view: &View, most: usize) {
    let rows = view.areas.iter().take(most).map(|area| {
        vec![
            area.name.clone(),
            tight(area.share),
            interval(area),
            weight(view, area.weight).replace(' ', ""),
            count(area.samples).replace(' ', ""),
        ]
    });
    let head = ["", "share", "95 %", weighed(view), "samples"];
    table(page, 1, &head, rows.collect());
    more(page, view.areas.len(), most);
}

fn exits(page: &mut Page, view: &View, most: usize) {
    for exit in view.exits.iter().take(most) {
        exit_row(page, exit);
    }
    more(page, view.exits.len(), most);
}

/// `HLT  61.2% (58.9-63.4%)  halt polling 83.1%, halt blocking 16.9%` and the symbols below.
fn exit_row(page: &mut Page, exit: &ExitView) {
    let name = harmless(&exit.part.name);
    let by = if exit.by == Some("stack") { "*" } else { "" };
    let first = format!("{name}{by}  ");
    let areas = list(&exit.areas, 4);
    let text = format!(
        "{} ({}): {areas}",
        tight(exit.part.share),
        interval(&exit.part)
    );
    page.wrapped(&first, &text, 4);
    let only_guest = exit
        .symbols
        .iter()
        .all(|symbol| symbol.name.starts_with('['));
    if !only_guest {
        page.wrapped("    in ", &list(&exit.symbols, 3), 7);
    }
}

/// `halt polling 83.1%, halt blocking 16.9%`
fn list(parts: &[Part], most: usize) -> String {
    let parts = parts.iter().take(most).map(|part| {
        let share = tight(part.share);
        format!("{} {share}", harmless(&part.name))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn symbols(page: &mut Page, view: &View, most: usize) {
    let hot: Vec<&SymbolView> = view
        .symbols
        .iter()
        .filter(|symbol| symbol.own.samples > 0)
        .collect();
    let rows = hot.iter().take(most).map(|symbol| {
        let space = match symbol.space {
            Some(Space::Kernel) => "k",
            Some(Space::User) => "v",
            None => "g",
        };
        vec![
            harmless(&symbol.own.name),
            format!(
                "{space} {}",
                crate::page::fit(&harmless(&symbol.module), 18)
            ),
            tight(symbol.own.share),
            interval(&symbol.own),
            tight(symbol.all.share),
        ]
    });
    let head = ["", "module", "itself", "95 %", "with callees"];
    table(page, 2, &head, rows.collect());
    more(page, hot.len(), most);
}

fn groups(page: &mut Page, view: &View, most: usize) {
    let rows = view.groups.iter().take(most).map(|group| {
        vec![
            harmless(&who(group)),
            tight(group.part.share),
            interval(&group.part),
            weight(view, group.part.weight).replace(' ', ""),
            side_share(group, group.guest),
            side_share(group, group.in_kernel),
            side_share(group, group.in_vmm),
        ]
    });
    let head = ["", "share", "95 %", weighed(view), "guest", "kernel", "VMM"];
    table(page, 1, &head, rows.collect());
    more(page, view.groups.len(), most);
}

fn who(group: &GroupView) -> String {
    match &group.vm {
        Some(vm) if *vm != group.part.name => format!("{vm} {}", group.part.name),
        _ => group.part.name.clone(),
    }
}

fn side_share(group: &GroupView, weight: u64) -> String {
    let part = weight as f64 / group.part.weight.max(1) as f64;
    share(part).replace(' ', "")
}

fn closing(page: &mut Page, view: &View) {
    let recording = &view.recording;
    let mut notes = Vec::new();
    if view.exits.iter().any(|exit| exit.by == Some("stack")) {
        notes.push("* told by a function on the stack, not by kvm_exit".to_owned());
    }
    for vm in &view.shallow {
        if vm.shallow * 4 > vm.samples {
            notes.push(format!(
                "{}: {} of {} stacks of user space end at once; a VMM built without frame pointers \
                 shows no callers",
                vm.vm, vm.shallow, vm.samples
            ));
        }
    }
    if view.event == Event::CpuClock {
        notes.push(
            "the CPU clock's timer is an interrupt: code that runs with interrupts off, the way into \
             the guest among it, is seen where they are let in again"
                .to_owned(),
        );
    }
    notes.extend(words::of_recording(recording.lost, recording.cut));
    let missing = recording
        .missing
        .iter()
        .filter(|it| it.field.starts_with("sample"));
    notes.extend(missing.map(|missing| missing.reason.clone()));
    notes.extend(recording.notes.iter().cloned());
    page.notes(&notes);
    page.wrapped(
        "",
        "Intervals hold in 95 of 100 recordings, if samples are independent of each other.",
        0,
    );
}
