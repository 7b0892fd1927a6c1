//! Figures over time: sparklines, charts of several lines, and where in time the screen stands.

use ratatui::style::Style;

use super::pen::{Pen, Theme, columns};
use crate::chart::{bar, sparkline};
use crate::number::{nanos, scaled, share};
use crate::top::figures::{cpus, per_s};
use crate::top::model::Model;
use crate::top::rows::Key;
use crate::top::step::{Cell, Step};

/// A figure of a step as a whole number; `None` where it is not known or nobody was there.
type Figure<'a> = dyn Fn(&Step) -> Option<u64> + 'a;

/// Halts in a second over the last steps.
pub(super) fn halts(model: &Model, key: Key, steps: usize) -> Vec<Option<u64>> {
    let halts = |step: &Step| -> Option<u64> {
        let sum = match key {
            Key::Vcpu(vm, id) => step.vcpu(vm, id).map_or(0, |cell| cell.halts.halts),
            Key::Vm(vm) => (step.of_vm(Some(vm)))
                .map(|(_, cell)| cell.halts.halts)
                .sum(),
            Key::Unplaced(vm) => (step.of_vm(vm))
                .filter(|(id, _)| vm.is_none() || id.is_none())
                .map(|(_, cell)| cell.halts.halts)
                .sum(),
        };
        Some(whole(per_s(sum, step.length_ns())))
    };
    model.timeline.before(steps).map(halts).collect()
}

/// The host's halts and wasted polling side by side.
pub(super) fn host(model: &Model, pen: &mut Pen<'_>, y: u16) {
    let half = pen.width() / 2;
    let halts = |step: &Step| Some(whole(per_s(step.total().halts.halts, step.length_ns())));
    let wasted = |step: &Step| wasted(&step.total(), step.length_ns());
    let style = pen.theme.good();
    line(
        model,
        "Halts/s",
        &halts,
        pen,
        (0, y, half.saturating_sub(1)),
        style,
    );
    let rest = pen.width() - half;
    let style = pen.theme.worth();
    line(model, "Wasted", &wasted, pen, (half, y, rest), style);
}

fn line(
    model: &Model,
    name: &str,
    figure: &Figure<'_>,
    pen: &mut Pen<'_>,
    (x, y, width): (u16, u16, u16),
    style: Style,
) {
    let at = pen.within(x, y, width, &format!("{name} "), Theme::faint());
    let room = (x + width).saturating_sub(at);
    let values = series(model, usize::from(room), figure);
    let full = values.iter().copied().flatten().max().unwrap_or(0);
    pen.within(at, y, room, &sparkline(&values, full), style);
}

/// Four charts of a VM or a vCPU, one below the other, between two lines.
pub(super) fn four(model: &Model, key: Key, pen: &mut Pen<'_>, (top, end): (u16, u16)) {
    let steps = usize::from(pen.width().saturating_sub(LABEL));
    let of = |figure: &dyn Fn(&Cell, u64) -> Option<u64>| {
        let nothing = Cell::default();
        let value = |step: &Step| match key {
            Key::Vm(vm) => figure(&step.vm(vm), step.length_ns()),
            Key::Vcpu(vm, id) => {
                let cell = step.vcpu(vm, id).unwrap_or(&nothing);
                figure(cell, step.length_ns())
            }
            Key::Unplaced(_) => None,
        };
        series(model, steps, &value)
    };
    let p99 = |cell: &Cell, _| cell.halts.wake_latency_ns.percentile(0.99);
    let (good, worth) = (pen.theme.good(), pen.theme.worth());
    let halts = halts(model, key, steps);
    let all = [
        ("Halts/s", Unit::PerSecond, halts, good),
        ("Wasted", Unit::Cpu, of(&wasted), worth),
        ("Useful", Unit::Cpu, of(&useful), good),
        ("Wake-up p99", Unit::Nanos, of(&p99), Theme::plain()),
    ];
    let each = (end.saturating_sub(top) / 4).clamp(1, HIGHEST);
    for (y, (name, unit, values, style)) in (top..end).step_by(usize::from(each)).zip(all) {
        if y + each <= end {
            chart(name, unit, &values, pen, (y, each), style);
        }
    }
}

/// Lines of a chart, at most.
const HIGHEST: u16 = 10;

/// A figure of the last steps, oldest first.
fn series(model: &Model, steps: usize, figure: &Figure<'_>) -> Vec<Option<u64>> {
    model.timeline.before(steps).map(figure).collect()
}

/// CPU polled in vain, in millionths of a CPU.
fn wasted(cell: &Cell, length_ns: u64) -> Option<u64> {
    let halts = &cell.halts;
    cpus(halts, halts.poll_fail_ns.sum(), length_ns).map(|cpus| whole(cpus * 1e6))
}

/// CPU polled with success, in millionths of a CPU.
fn useful(cell: &Cell, length_ns: u64) -> Option<u64> {
    let halts = &cell.halts;
    cpus(halts, halts.poll_success_ns.sum(), length_ns).map(|cpus| whole(cpus * 1e6))
}

/// How the top of a chart is named.
#[derive(Debug, Clone, Copy)]
enum Unit {
    /// In a second.
    PerSecond,
    /// Millionths of a CPU.
    Cpu,
    /// Nanoseconds.
    Nanos,
}

impl Unit {
    fn text(self, value: u64) -> String {
        match self {
            Self::PerSecond => scaled(value as f64),
            Self::Cpu => share(value as f64 / 1e6),
            Self::Nanos => nanos(value),
        }
    }
}

/// A chart of several lines, with its name and its highest value at the left.
fn chart(
    name: &str,
    unit: Unit,
    values: &[Option<u64>],
    pen: &mut Pen<'_>,
    (y, height): (u16, u16),
    style: Style,
) {
    let full = values.iter().copied().flatten().max();
    pen.within(0, y, LABEL, name, Theme::plain());
    let top = full.map_or_else(|| "-".to_owned(), |full| unit.text(full));
    let now = values.last().copied().flatten();
    let now = now.map_or_else(|| "-".to_owned(), |now| unit.text(now));
    if height > 1 {
        pen.within(0, y + 1, LABEL, &format!(" {now}"), Theme::strong());
    }
    if height > 2 {
        pen.within(0, y + 2, LABEL, &format!(" top {top}"), Theme::faint());
    }
    let full = full.unwrap_or(0);
    let levels = u64::from(height) * 8;
    for (x, value) in (LABEL..pen.width()).zip(values) {
        let level = value.map_or(0, |value| match (value, full) {
            (0, _) | (_, 0) => 0,
            _ => scale(value, full, levels).max(1),
        });
        for line in 0..height {
            let below = u64::from(height - 1 - line) * 8;
            let piece = sparkline(&[Some(level.saturating_sub(below).min(8))], 8);
            let piece = match (line + 1 == height, level.saturating_sub(below)) {
                (true, 0) if value.is_none() => " ",
                (true, 0) => ".",
                (false, 0) => " ",
                _ => piece.as_str(),
            };
            pen.within(x, y + line, 1, piece, style);
        }
    }
}

/// Columns at the left of a chart.
const LABEL: u16 = 16;

/// A value as so many of `levels`, of which `full` is all.
fn scale(value: u64, full: u64, levels: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(levels) / u128::from(full);
    u64::try_from(scaled).unwrap_or(levels).min(levels)
}

/// Where in time the screen stands.
pub(super) fn time_bar(model: &Model, pen: &mut Pen<'_>, y: u16) {
    let (first, last) = model.timeline.span();
    let Some(step) = model.step() else { return };
    let utc = model.origin.utc(step.end_ns).unwrap_or_default();
    let x = pen.text(0, y, "Time [", Theme::faint());
    let end = format!(
        "] {} of {}  {utc}",
        model.timeline.position() + 1,
        model.timeline.len()
    );
    let room = pen.width().saturating_sub(x + columns(&end));
    let at = step.end_ns.saturating_sub(first);
    let done = bar('=', at, last.saturating_sub(first), usize::from(room));
    pen.within(x, y, room, &done, Theme::strong());
    pen.text(x + room, y, &end, Theme::faint());
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate or a share, not negative; the cast saturates"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}
