//! Where halted time goes, what ended halts, and which exits there were: of a VM, or of a vCPU.

use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};

use super::GOOD;
use crate::chart::stacked;
use crate::figures::wakes;
use crate::number::{nanos, percent, scaled};
use crate::top::figures::{self, CountedReason, per_s};
use crate::top::model::Model;
use crate::top::step::{Cell, Key, Step};

/// Marks of the parts of halted time and what they are called, in the order of `Parts::named`.
const MARKS: [(char, &str); 6] = [
    ('#', "successful poll"),
    ('!', "failed poll"),
    (' ', "sleep"),
    ('>', "wake-up"),
    ('<', "no schedule()"),
    ('?', "unknown"),
];

/// The least lines of it: an empty one, and all but the exits.
pub(super) const LEAST: u16 = 5;

/// Lines of it, with so many reasons of exits where these are counted.
pub(super) fn height(model: &Model, reasons: u16) -> u16 {
    if model.exits() {
        LEAST + 1 + reasons
    } else {
        LEAST
    }
}

pub(super) fn lines(model: &Model, key: Key, vcpus: u64, area: Rect) -> Vec<Line<'static>> {
    let Some(step) = model.step() else {
        return Vec::new();
    };
    let cell = step.sum(key);
    let parts = cell.halts.parts;
    let total = parts.total_ns();
    let length = step.length_ns();
    // Halts that began before the interval reach out of it.
    let within = total.min(length.saturating_mul(vcpus));
    let halted = percent(within as f64, length as f64);
    let named: Vec<_> = parts.named().into_iter().zip(MARKS).collect();
    let marked: Vec<_> = named
        .iter()
        .map(|((_, ns), (mark, _))| (*mark, *ns))
        .collect();
    let bar = match total {
        0 => String::new(),
        _ => format!(
            "[{}]",
            stacked(&marked, usize::from(area.width.saturating_sub(2)))
        ),
    };
    let legend = named.into_iter().filter(|((_, ns), _)| *ns > 0);
    let legend = legend.map(|((_, ns), (mark, name))| {
        let text = format!("{mark} {name} {}", percent(ns as f64, total as f64));
        text.trim_start().to_owned()
    });
    let mut lines = vec![
        Line::default(),
        format!("Halted {halted} of one CPU").bold().into(),
        Span::styled(bar, GOOD).into(),
        legend.collect::<Vec<_>>().join("  ").into(),
        Line::from(vec!["Woken by".bold(), woken(&cell, step).into()]),
    ];
    lines.extend(exits(model, step, &cell));
    lines.truncate(area.height.into());
    lines
}

fn woken(cell: &Cell, step: &Step) -> String {
    let woken = wakes(cell.halts.wakes).filter(|(_, count)| *count > 0);
    let woken: Vec<String> = woken
        .map(|(source, count)| {
            format!(
                "{source} {}/s",
                scaled(per_s(count, step.length_ns() as f64))
            )
        })
        .collect();
    if woken.is_empty() {
        return " no halts".to_owned();
    }
    format!(" {}", woken.join("  "))
}

fn exits(model: &Model, step: &Step, cell: &Cell) -> Vec<Line<'static>> {
    let Some(names) = &model.origin.names else {
        return Vec::new();
    };
    let exits = figures::exits(cell, step.exits_ns() as f64, names);
    let mut total = Line::from(format!("Exits {}/s", scaled(exits.per_s)).bold());
    if exits.reasons.is_empty() {
        total.push_span("; none in this interval");
    }
    let reasons = exits.reasons.iter();
    let reasons = reasons.map(|reason| exit(reason, step).into());
    std::iter::once(total).chain(reasons).collect()
}

fn exit(reason: &CountedReason, step: &Step) -> String {
    let time = reason.time_ns.map_or_else(String::new, |ns| {
        let mean = ns.checked_div(reason.count).unwrap_or(0);
        format!(
            "   {} of a CPU, {} each, in the VMM {}",
            percent(ns as f64, step.exits_ns() as f64),
            nanos(mean),
            percent(reason.user_ns as f64, ns as f64),
        )
    });
    format!("  {:<24} {:>8}/s{time}", reason.name, scaled(reason.per_s))
}
