//! The lines above the tables: where and when, the whole host, its settings, and what watching costs.

use haltwise_core::parameter::Parameter;
use haltwise_core::recording::Mode;
use haltwise_core::units::Nanos;

use super::charts;
use super::pen::{Pen, Theme, columns, fitting};
use crate::number::{maybe_nanos, nanos, nanos_f64, scaled, share, three_digits};
use crate::page::{fit_middle, harmless};
use crate::top::columns::cpu;
use crate::top::figures::Figures;
use crate::top::model::{Model, Screen};
use crate::top::rows::{self, tame};
use crate::top::step::Step;
use crate::words::{ceiling_source, plural};

/// Draws as many of the lines as there is room for; gives how many.
pub(super) fn draw(model: &Model, pen: &mut Pen<'_>, room: u16) -> u16 {
    let Some(step) = model.step() else {
        title(model, None, pen);
        pen.text(
            0,
            2,
            "Waiting for the end of the first interval.",
            Theme::plain(),
        );
        return 3;
    };
    title(model, Some(step), pen);
    let mut y = 1;
    let mut line = |pen: &mut Pen<'_>, draws: &dyn Fn(&mut Pen<'_>, u16)| {
        if y < room {
            draws(pen, y);
            y += 1;
        }
    };
    line(pen, &|pen, y| totals(model, step, pen, y));
    line(pen, &|pen, y| {
        pen.text(0, y, &settings(step), Theme::plain());
    });
    line(pen, &|pen, y| {
        let cost = cost(model, step, pen.width());
        pen.text(0, y, &cost, Theme::faint());
    });
    if !model.origin.is_live() || !model.timeline.follows() {
        line(pen, &|pen, y| charts::time_bar(model, pen, y));
    }
    if model.screen == Screen::Host {
        line(pen, &|pen, y| charts::host(model, pen, y));
    }
    if y + 2 < room {
        y += 1;
    }
    y
}

pub(super) fn draw_once(model: &Model, pen: &mut Pen<'_>) -> u16 {
    let Some(step) = model.step() else {
        title(model, None, pen);
        return 1;
    };
    title(model, Some(step), pen);
    totals(model, step, pen, 1);
    pen.text(0, 2, &settings(step), Theme::plain());
    let cost = cost(model, step, pen.width());
    pen.text(0, 3, &cost, Theme::plain());
    5
}

/// Who and where at the left, when at the right.
fn title(model: &Model, step: Option<&Step>, pen: &mut Pen<'_>) {
    let when = step.map_or_else(String::new, |step| when(model, step));
    let width = pen.width();
    let end = width.saturating_sub(columns(&when));
    let rest = if end >= 24 {
        pen.text(end, 0, &when, Theme::strong());
        end - 2
    } else {
        width
    };
    let x = pen.within(0, 0, rest, "haltwise top: ", Theme::plain());
    let mut pieces = vec![tame(&model.origin.hostname)];
    pieces.extend(step.map(cpus).unwrap_or_default());
    pieces.push(format!("Linux {}", tame(&model.origin.kernel)));
    let text = fitting(&pieces, rest - x);
    pen.within(x, 0, rest - x, &text, Theme::strong());
}

fn cpus(step: &Step) -> Vec<String> {
    let Some(sample) = step.last_sample().filter(|sample| sample.cpus > 0) else {
        return Vec::new();
    };
    let used = step.host_use();
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

/// The host, or the VM that is looked at.
fn totals(model: &Model, step: &Step, pen: &mut Pen<'_>, y: u16) {
    let names = model.origin.names.as_ref();
    let (who, figures, nothing) = match model.screen {
        Screen::Host => ("Host".to_owned(), rows::host(step, names), None),
        Screen::Vm(index) | Screen::Vcpu(index, _) => {
            let Some(vm) = model.vm(index) else { return };
            let name = fit_middle(&tame(&vm.name), usize::from(pen.width() / 4).max(8));
            let who = format!("VM {name} ({} {})", vm.vmm, vm.key.pid);
            let row = rows::of_vm(step, vm, names);
            let there = step.around.vms.iter().any(|there| there.index == index);
            let gone = (!there).then(|| "not present in this interval".to_owned());
            let instead = row.instead();
            (who, row.figures, gone.or(instead))
        }
    };
    let room = pen.width() / 2;
    let x = pen.within(0, y, room.max(8), &who, Theme::strong());
    let x = pen.text(x, y, ": ", Theme::plain());
    if let Some(why) = nothing {
        pen.text(x, y, &why, pen.theme.worth());
        return;
    }
    let said = fitting(&said(&figures), pen.width().saturating_sub(x));
    pen.text(x, y, &said, Theme::plain());
}

fn said(figures: &Figures) -> Vec<String> {
    let mut said = vec![format!("{} halts/s", scaled(figures.halts_per_s))];
    if let Some(exits) = &figures.exits {
        said.push(format!("{} exits/s", scaled(exits.per_s)));
    }
    said.push(format!("failed {}", cpu(figures.wasted)));
    said.push(format!("successful {}", cpu(figures.useful)));
    if let Some(latency) = figures.latency {
        let (p50, p99) = (nanos(latency.p50), nanos(latency.p99));
        said.push(format!("sleeps p50 {p50}, p99 {p99}"));
    }
    said.push(limits(figures));
    said
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

/// What watching costs, as `haltwise record` says it.
fn cost(model: &Model, step: &Step, width: u16) -> String {
    let mode = match model.origin.mode {
        Mode::Full => "every halt",
        Mode::Counts => "counts",
        Mode::Stats => "KVM's own counts",
    };
    let exits = if model.exits() { " and exits" } else { "" };
    let first = format!("Cost of {mode}{exits} by {}: ", model.origin.rung);
    let recorder = step.recorder_cpus();
    let sample = step.last_sample();
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
    let room = width.saturating_sub(columns(&first));
    first + &fitting(&pieces, room)
}

/// Where a ceiling is from, and what the window stands at.
pub(super) fn limits(figures: &Figures) -> String {
    let ceiling = match figures.ceilings {
        None => "ceiling not known".to_owned(),
        Some(ceilings) => format!(
            "ceiling {} ({})",
            nanos(u64::from(ceilings.high_ns)),
            ceiling_source(ceilings.source)
        ),
    };
    let veto = if figures.vetoes > 0 {
        "; guest disabled host polling"
    } else {
        ""
    };
    format!("window {}, {ceiling}{veto}", maybe_nanos(figures.window_ns))
}
