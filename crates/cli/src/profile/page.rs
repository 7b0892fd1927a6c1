//! The result as shown on a screen and on the page of `report --html`.

use haltwise_core::profile::Event;
use haltwise_document::block::{self, Block};
use haltwise_document::{Document, Figures, Prose, Rows, Table, Unit, Untrusted, prose};

use super::view::{By, Part, ProfileGroup, ProfileResult, ProfiledExit, ProfiledSymbol};
use crate::number::{count, nanos, scaled, share};
use crate::words::plural;

pub(crate) fn document(view: &ProfileResult, by: Option<By>, top: usize) -> Document {
    let mut document = Document::new();
    opening(&mut document, view);
    match by {
        _ if view.total.samples == 0 => {}
        None => {
            if view.groups.len() > 1 {
                document.heading("By VM");
                document.table(groups(view, top));
            }
            document.heading("By area");
            document.table(areas(view, top));
            document.heading("By exit");
            exits(&mut document, &view.exits, top);
            document.heading("Symbols");
            document.table(symbols(view, top));
        }
        Some(By::Area) => document.table(areas(view, top)),
        Some(By::Exit) => exits(&mut document, &view.exits, top),
        Some(By::Symbol) => document.table(symbols(view, top)),
        Some(By::Vm | By::Vcpu | By::Thread | By::Module) => document.table(groups(view, top)),
    }
    notes(&mut document, view);
    document.remark("95 % confidence intervals, assuming independent samples.");
    document
}

fn opening(document: &mut Document, view: &ProfileResult) {
    let (source, total) = (&view.recording.source, &view.total);
    let text = format!(
        "{} of {} of {} in {}, at {} Hz, Linux ",
        plural(total.samples, "sample"),
        view.event,
        plural(source.vms as u64, "VM"),
        nanos(source.duration_ns),
        view.recording.hz,
    );
    document.fact(
        Untrusted::from(&source.host),
        prose![text, Untrusted::from(&source.kernel)],
    );
    if total.samples == 0 {
        document.prose("No samples: no VMM ran.");
        return;
    }
    let within = share(total.scatter);
    document.prose(match view.event {
        Event::CpuClock => {
            let span_ns = source.duration_ns.max(1) as f64;
            let cpus = share(total.weight as f64 / span_ns);
            format!(
                "{} of CPU time, ± {within}: {cpus} of one CPU.",
                nanos(total.weight)
            )
        }
        _ => format!("{} {}, ± {within}.", scaled(total.weight as f64), view.unit),
    });
    let sides = view.sides.iter().map(|side| {
        let class = match side.name.as_str() {
            "guest" => "f-guest",
            "kernel" => "f-kernel",
            _ => "f-user",
        };
        block::Part::new(class, &side.name, side.weight)
    });
    document.push(Block::Bar(sides.collect()));
    for other in &view.beside {
        document.prose(format!(
            "{}: {} {} in {}.",
            other.event,
            scaled(other.weight as f64),
            other.unit,
            plural(other.samples, "sample")
        ));
    }
}

fn rows<'a, R: Figures>(
    view: &ProfileResult,
    caption: &'static str,
    rows: &'a [R],
    top: usize,
) -> Rows<'a, R> {
    let rows = Rows::new(caption, rows, top);
    match view.event {
        Event::CpuClock => rows.amounts(Unit::Nanos),
        _ => rows,
    }
}

fn interval(part: &Part) -> Option<String> {
    let low = share(part.low?);
    Some(format!(
        "{}-{}",
        low.trim_end_matches(" %"),
        share(part.high?)
    ))
}

pub(crate) fn areas(view: &ProfileResult, top: usize) -> Table {
    rows(view, "By area", &view.areas, top)
        .show(&["name", "share"])
        .with("95 %", Unit::Number, interval)
        .show(&["weight", "samples"])
        .titled("name", "area")
        .titled("weight", weighed(view))
        .finish()
}

fn weighed(view: &ProfileResult) -> &'static str {
    match view.event {
        Event::CpuClock => "time",
        _ => view.unit,
    }
}

pub(crate) fn symbols(view: &ProfileResult, top: usize) -> Table {
    let hot: Vec<&ProfiledSymbol> = view
        .symbols
        .iter()
        .filter(|it| it.own.samples > 0)
        .collect();
    rows(view, "Hottest symbols", &hot, top)
        .show(&["own.name", "module", "space", "own.share"])
        .with("95 %", Unit::Number, |symbol| interval(&symbol.own))
        .show(&["all.share"])
        .titled("own.name", "symbol")
        .titled("own.share", "itself")
        .titled("all.share", "with callees")
        .spare(&["space"])
        .finish()
}

fn groups(view: &ProfileResult, top: usize) -> Table {
    let of = |weight: u64, row: &ProfileGroup| weight as f64 / row.part.weight.max(1) as f64;
    let other = |row: &ProfileGroup| row.vm.as_ref().is_some_and(|vm| *vm != row.part.name);
    let named: &[&str] = if view.groups.iter().any(other) {
        &["vm", "name", "share"]
    } else {
        &["name", "share"]
    };
    rows(view, "By VM, vCPU, thread or module", &view.groups, top)
        .show(named)
        .with("95 %", Unit::Number, |row| interval(&row.part))
        .show(&["weight"])
        .titled("weight", weighed(view))
        .with("guest", Unit::Share, |row| of(row.guest, row))
        .with("kernel", Unit::Share, |row| of(row.in_kernel, row))
        .with("VMM", Unit::Share, |row| of(row.in_vmm, row))
        .finish()
}

fn exits(document: &mut Document, exits: &[ProfiledExit], top: usize) {
    for exit in exits.iter().take(top) {
        let mark = if exit.by == Some("stack") { "*" } else { "" };
        let part = exit.part.share.map_or_else(|| "-".to_owned(), share);
        let interval = interval(&exit.part).unwrap_or_default();
        let mut words = prose![format!("{part} ({interval}): ")];
        words.extend(list(&exit.areas, 4));
        if exit.symbols.iter().any(|it| !it.name.starts_with('[')) {
            words.extend(prose!["; in "]);
            words.extend(list(&exit.symbols, 3));
        }
        document.fact(prose![Untrusted::from(&exit.part.name), mark], words);
    }
    if exits.len() > top {
        let more = count((exits.len() - top) as u64);
        document.prose(format!("and {more} more (--rows all)"));
    }
}

/// `halt polling 83.1 %, halt blocking 16.9 %`
fn list(parts: &[Part], most: usize) -> Prose {
    let mut words = Prose::default();
    for (n, part) in parts.iter().take(most).enumerate() {
        let comma = if n > 0 { ", " } else { "" };
        let share = part.share.map_or_else(|| "-".to_owned(), share);
        words.extend(prose![
            comma,
            Untrusted::from(&part.name),
            format!(" {share}")
        ]);
    }
    words
}

fn notes(document: &mut Document, view: &ProfileResult) {
    if view.exits.iter().any(|exit| exit.by == Some("stack")) {
        document.note("* known by a function on the stack, not by kvm_exit");
    }
    for vm in view.shallow.iter().filter(|vm| vm.shallow * 4 > vm.samples) {
        document.note(prose![
            Untrusted::from(&vm.vm),
            format!(
                ": {} of {} user-space stacks have no callers; a VMM built without frame pointers \
                 shows none",
                vm.shallow, vm.samples
            )
        ]);
    }
    if view.event == Event::CpuClock {
        document.note(
            "cpu-clock samples are taken by a timer interrupt: code that runs with interrupts \
             disabled, such as VM entry, is attributed to where they are enabled again",
        );
    }
    view.recording.source.note(document, "sample");
}
