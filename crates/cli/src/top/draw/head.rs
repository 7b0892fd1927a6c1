//! The lines above the tables: where and when, the whole host, its settings, and what watching costs. The lines below:
//! keys or the filter that is typed, and last of all what was lost.

use std::collections::BTreeMap;

use haltwise_core::account::Spread;
use haltwise_core::event::Observable;
use haltwise_core::parameter::Parameter;
use haltwise_core::recording::Mode;
use haltwise_core::units::Nanos;
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::number::{count, maybe_nanos, nanos, nanos_f64, scaled, share, three_digits};
use crate::page::{Page, fit_middle, harmless};
use crate::pilot_state::text;
use crate::top::draw::{ALARM, WORTH, charts, cut, filled, fitting};
use crate::top::figures::EMULATED;
use crate::top::model::{Model, Screen};
use crate::top::piloted;
use crate::top::rows::{self, Table, TopRow, paused, per_second, tame};
use crate::top::step::{Step, lost_by_place, lost_count};
use crate::words::{ceiling_source, of_cpu, plural};

pub(super) fn lines(model: &Model, width: u16) -> Vec<Line<'static>> {
    let mut lines = of_interval(model, width);
    if model.step().is_none() {
        return lines;
    }
    if !model.origin.is_live() || !model.timeline.follows() {
        lines.push(charts::time_bar(model, width.into()));
    }
    if model.screen == Screen::Host {
        lines.push(charts::host(model, width.into()));
    }
    lines
}

/// The lines of the interval by itself, which a page of text has too.
pub(super) fn of_interval(model: &Model, width: u16) -> Vec<Line<'static>> {
    let width = width.into();
    let Some(step) = model.step() else {
        let waiting = "Waiting for the end of the first interval.";
        return vec![title(model, None, width), Line::default(), waiting.into()];
    };
    vec![
        title(model, Some(step), width),
        totals(model, step, width),
        settings(step).into(),
        cost(model, step, width).dim().into(),
    ]
}

/// Subject and host at the left, time at the right.
fn title(model: &Model, step: Option<&Step>, width: usize) -> Line<'static> {
    let when = step.map_or_else(String::new, |step| when(model, step));
    let end = width.saturating_sub(when.width());
    let has_room = end >= 24;
    let rest = if has_room { end - 2 } else { width };
    let subject = "haltwise top: ";
    let mut pieces = vec![tame(&model.origin.hostname)];
    pieces.extend(step.map(cpus).unwrap_or_default());
    pieces.push(format!("Linux {}", tame(&model.origin.kernel)));
    let host = fitting(&pieces, rest.saturating_sub(subject.len()));
    let line = cut(Line::from(vec![subject.into(), host.bold()]), rest);
    if !has_room {
        return line;
    }
    let mut line = filled(line, end);
    line.push_span(when.bold());
    line
}

fn cpus(step: &Step) -> Vec<String> {
    let Some(sample) = step.host.last_sample().filter(|sample| sample.cpus > 0) else {
        return Vec::new();
    };
    let busy = |busy| format!("{} busy", three_digits(busy));
    let pressure = |part| format!("pressure {}", share(part));
    let mut pieces = vec![plural(u64::from(sample.cpus), "CPU")];
    pieces.extend(step.host.busy_cpus().map(busy));
    pieces.extend(step.host.cpu_pressure().map(pressure));
    pieces
}

fn when(model: &Model, step: &Step) -> String {
    let timeline = &model.timeline;
    let (first, last) = timeline.span();
    let length = Nanos(step.length_ns());
    if model.origin.is_live() {
        return if timeline.follows() {
            format!("live, every {length}")
        } else {
            let ago = last.saturating_sub(step.end_ns);
            format!("PAUSED, {} before the newest", nanos(ago))
        };
    }
    let from = step.start_ns.saturating_sub(first);
    let to = step.end_ns.saturating_sub(first);
    let all = last.saturating_sub(first);
    format!("{}-{} of {}", nanos(from), nanos(to), nanos(all))
}

fn totals(model: &Model, step: &Step, width: usize) -> Line<'static> {
    let names = model.origin.names.as_ref();
    let (name, row) = match model.screen {
        Screen::Host => ("Host".to_owned(), rows::of_all(step, names)),
        Screen::Vm(index) | Screen::Vcpu(index, _) => {
            let Some(vm) = model.vm(index) else {
                return Line::default();
            };
            let name = fit_middle(&tame(&vm.name), (width / 4).max(8));
            let name = format!("VM {name} ({} {})", vm.vmm, vm.key.pid);
            let mut row = rows::of_vm(step, vm, names);
            if !step.around.vms.iter().any(|vm| vm.index == index) {
                row.instead = Some("not present in this interval".to_owned());
            }
            (name, row)
        }
    };
    let mut line = cut(name.bold().into(), (width / 2).max(8));
    line.push_span(": ");
    let room = width.saturating_sub(line.width());
    if let Some(why) = &row.instead {
        line.push_span(Span::styled(why.clone(), WORTH));
        return line;
    }
    let mut pieces = rates(&row);
    if let Some(latency) = row.figures.wake_latency_ns {
        let (p50, p99) = (nanos(latency.p50), nanos(latency.p99));
        pieces.push(format!("sleeps p50 {p50}, p99 {p99}"));
    }
    pieces.push(limits(&row));
    line.push_span(fitting(&pieces, room));
    line
}

fn rates(row: &TopRow) -> Vec<String> {
    let of = &row.figures;
    let mut rates = vec![format!("{} halts/s", per_second(of.halts_per_s))];
    if let Some(exits) = &of.exits {
        rates.push(format!("{} exits/s", scaled(exits.per_s)));
    }
    rates.push(format!("failed {}", of_cpu(of.wasted_cpu_percent)));
    rates.push(format!("successful {}", of_cpu(of.useful_cpu_percent)));
    rates
}

pub(super) fn of_vcpu(row: &TopRow, width: u16) -> Vec<Line<'_>> {
    let room = usize::from(width).saturating_sub(row.name.width() + 2);
    let rates = format!(": {}", fitting(&rates(row), room));
    let latency = |of: fn(Spread) -> u64| maybe_nanos(row.figures.wake_latency_ns.map(of));
    let sleeps = format!(
        "sleeps: wake-up p50 {}, p95 {}, p99 {}, max {}",
        latency(|of| of.p50),
        latency(|of| of.p95),
        latency(|of| of.p99),
        latency(|of| of.max),
    );
    vec![
        Line::from(vec![row.name.as_str().bold(), rates.into()]),
        sleeps.into(),
        limits(row).into(),
    ]
}

fn settings(step: &Step) -> String {
    let knobs = &step.around.knobs;
    let known = |it: Parameter| {
        let value = harmless(knobs.get(it.name())?);
        Some(format!("{} {value}", it.short()))
    };
    let known: Vec<String> = Parameter::HOST.into_iter().filter_map(known).collect();
    if known.is_empty() {
        return "Settings: not known".to_owned();
    }
    format!("Settings: {}", known.join(", "))
}

fn cost(model: &Model, step: &Step, width: usize) -> String {
    let mode = match model.origin.mode {
        Mode::Full => "every halt",
        Mode::Counts => "counts",
        Mode::Stats => "KVM's own counts",
    };
    let exits = if model.exits() { " and exits" } else { "" };
    let first = format!("Cost of {mode}{exits} by {}: ", model.origin.rung);
    let recorder = step.host.recorder_cpus();
    let sample = step.host.last_sample();
    let programs = step.around.added_ns_per_halt;
    let pieces: Vec<String> = [
        recorder.map(|cpus| format!("recorder {:.1} % of a CPU", cpus * 100.0)),
        programs.map(|ns| format!("{} per halt", nanos_f64(ns))),
        sample.map(|sample| format!("{:.0} MB", sample.recorder_rss_bytes as f64 / 1e6)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if pieces.is_empty() {
        return first + "not known";
    }
    let room = width.saturating_sub(first.width());
    first + &fitting(&pieces, room)
}

fn limits(row: &TopRow) -> String {
    let ceiling = match &row.figures.ceiling {
        None => "ceiling not known".to_owned(),
        Some(ceiling) => format!(
            "ceiling {} ({})",
            nanos(u64::from(ceiling.high_ns)),
            ceiling_source(ceiling.source)
        ),
    };
    let veto = match row.vetoes {
        0 => "",
        _ => "; guest disabled host polling",
    };
    let window = maybe_nanos(row.figures.window_ns);
    format!("window {window}, {ceiling}{veto}")
}

pub(super) fn below(model: &Model, rows: &[TopRow], width: u16) -> Vec<Line<'static>> {
    let above = if model.typing.is_some() {
        format!("Filter: {}_  (Enter keeps it, Esc drops it)", model.filter).bold()
    } else {
        keys(model, width.into()).dim()
    };
    vec![above.into(), losses(model, rows)]
}

/// The keys that matter here, as many as fit; those of help and of the end always.
fn keys(model: &Model, width: usize) -> String {
    let pause = model.origin.is_live().then_some("Space pause");
    let time = pause.into_iter().chain(["Left Right time"]);
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
    for (column, _) in rows::fitting(Table::Vms, model.there(), width) {
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
