//! The lines above the tables: where and when, the whole host, its settings, and what watching costs.

use haltwise_core::account::Spread;
use haltwise_core::parameter::Parameter;
use haltwise_core::recording::Mode;
use haltwise_core::units::Nanos;
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::charts;
use super::{WORTH, cut, filled, fitting};
use crate::number::{maybe_nanos, nanos, nanos_f64, scaled, share, three_digits};
use crate::page::{fit_middle, harmless};
use crate::top::columns::{cpu, per_second};
use crate::top::model::{Model, Screen};
use crate::top::rows::{self, TopRow, tame};
use crate::top::step::Step;
use crate::words::{ceiling_source, plural};

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
    let used = &step.host;
    let busy = used
        .busy_cpus()
        .map(|busy| format!("{} busy", three_digits(busy)));
    let pressure = used
        .cpu_pressure()
        .map(|part| format!("pressure {}", share(part)));
    let mut pieces = vec![plural(u64::from(sample.cpus), "CPU")];
    pieces.extend(busy);
    pieces.extend(pressure);
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
    let state = match (model.playing, timeline.len()) {
        (true, _) => format!(", playing{}", speed(model.speed)),
        (false, 0 | 1) => String::new(),
        (false, _) => format!(", paused{}", speed(model.speed)),
    };
    let from = step.start_ns.saturating_sub(first);
    let to = step.end_ns.saturating_sub(first);
    format!(
        "{}-{} of {}{state}",
        nanos(from),
        nanos(to),
        nanos(last.saturating_sub(first))
    )
}

fn speed(speed: i32) -> String {
    match speed {
        0 => String::new(),
        1.. => format!(" x{}", 1_u32 << speed),
        _ => format!(" x1/{}", 1_u32 << -speed),
    }
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
    rates.push(format!("failed {}", cpu(of.wasted_cpu_percent)));
    rates.push(format!("successful {}", cpu(of.useful_cpu_percent)));
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
        Some(format!(
            "{} {}",
            it.short(),
            harmless(knobs.get(it.name())?)
        ))
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
    let veto = if row.vetoes > 0 {
        "; guest disabled host polling"
    } else {
        ""
    };
    let window = maybe_nanos(row.figures.window_ns);
    format!("window {window}, {ceiling}{veto}")
}
