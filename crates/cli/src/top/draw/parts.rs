//! Where halted time goes, what ended halts, and which exits there were: of a VM, or of a vCPU.

use super::pen::{Pen, Theme};
use crate::chart::stacked;
use crate::number::{nanos, percent, scaled};
use crate::top::figures::{Figures, Reason, Whose, per_s, wakes};
use crate::top::model::{Model, Screen};
use crate::top::step::{Cell, Step};

/// Marks of the parts of halted time and what they are called, in the order of `Parts::named`.
const MARKS: [(char, &str); 6] = [
    ('#', "successful poll"),
    ('!', "failed poll"),
    (' ', "sleep"),
    ('>', "wake-up"),
    ('<', "no schedule()"),
    ('?', "unknown"),
];

const EXITS: u16 = 5;

/// The least lines of it: an empty one, and all but the exits.
pub(super) const LEAST: u16 = 5;

pub(super) fn height(model: &Model) -> u16 {
    if model.exits() {
        LEAST + 1 + EXITS
    } else {
        LEAST
    }
}

pub(super) fn draw(model: &Model, cell: &Cell, pen: &mut Pen<'_>, top: u16, height: u16) {
    let Some(step) = model.step() else { return };
    let parts = cell.halts.parts;
    let total = parts.total_ns();
    let style = Theme::strong();
    let length = step.length_ns();
    // Halts that began before the interval reach out of it.
    let within = total.min(length.saturating_mul(vcpus(model)));
    let halted = format!(
        "Halted {} of one CPU",
        percent(within as f64, length as f64)
    );
    pen.text(0, top + 1, &halted, style);
    if total > 0 {
        let marked = parts.named().into_iter().zip(MARKS);
        let marked: Vec<_> = marked.map(|((_, ns), (mark, _))| (mark, ns)).collect();
        let width = pen.width().saturating_sub(2);
        let line = format!("[{}]", stacked(&marked, usize::from(width)));
        pen.text(0, top + 2, &line, pen.theme.good());
    }
    let named = parts.named().into_iter().zip(MARKS);
    let legend: Vec<String> = named
        .filter(|((_, ns), _)| *ns > 0)
        .map(|((_, ns), (mark, name))| {
            let mark = if mark == ' ' {
                String::new()
            } else {
                format!("{mark} ")
            };
            format!("{mark}{name} {}", percent(ns as f64, total as f64))
        })
        .collect();
    pen.text(0, top + 3, &legend.join("  "), Theme::plain());
    woken(cell, step, pen, top + 4);
    if model.exits() && height > LEAST + 1 {
        exits(model, step, cell, pen, top + LEAST, height - LEAST - 1);
    }
}

fn vcpus(model: &Model) -> u64 {
    match model.screen {
        Screen::Vcpu(..) => 1,
        Screen::Host | Screen::Vm(_) => u64::try_from(model.rows().len().max(1)).unwrap_or(1),
    }
}

fn woken(cell: &Cell, step: &Step, pen: &mut Pen<'_>, y: u16) {
    let mut x = pen.text(0, y, "Woken by", Theme::strong());
    let woken = wakes(&cell.halts)
        .into_iter()
        .filter(|(_, count)| *count > 0);
    let woken: Vec<String> = woken
        .map(|(source, count)| format!("{source} {}/s", scaled(per_s(count, step.length_ns()))))
        .collect();
    let text = if woken.is_empty() {
        "no halts".to_owned()
    } else {
        woken.join("  ")
    };
    x += 1;
    pen.text(x, y, &text, Theme::plain());
}

fn exits(model: &Model, step: &Step, cell: &Cell, pen: &mut Pen<'_>, top: u16, rows: u16) {
    let whose = Whose {
        cell,
        known: &[],
        vcpus: 0,
        cpu: None,
        length_ns: step.length_ns(),
        names: model.origin.names.as_ref(),
    };
    let figures = Figures::of(step, whose);
    let Some(exits) = figures.exits else { return };
    let total = format!("Exits {}/s", scaled(exits.per_s));
    let x = pen.text(0, top, &total, Theme::strong());
    if exits.reasons.is_empty() {
        pen.text(x, top, "; none in this interval", Theme::plain());
        return;
    }
    for (n, reason) in exits.reasons.iter().take(usize::from(rows)).enumerate() {
        let y = top + 1 + u16::try_from(n).unwrap_or(0);
        pen.text(2, y, &exit(reason, step), Theme::plain());
    }
}

fn exit(reason: &Reason, step: &Step) -> String {
    let time = reason.time_ns.map_or_else(String::new, |ns| {
        let mean = ns.checked_div(reason.count).unwrap_or(0);
        format!(
            "   {} of a CPU, {} each, in the VMM {}",
            percent(ns as f64, step.exits_ns() as f64),
            nanos(mean),
            percent(reason.user_ns as f64, ns as f64),
        )
    });
    format!("{:<24} {:>8}/s{time}", reason.name, scaled(reason.per_s))
}
