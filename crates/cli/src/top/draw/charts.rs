//! Figures over time: sparklines, charts of several lines, and where in time the screen stands.

use haltwise_core::account::Account;
use haltwise_core::hist::LogHist;
use ratatui::style::Style;

use super::pen::{Pen, Theme, columns};
use crate::chart::{bar, sparkline};
use crate::number::{nanos, scaled, share, whole};
use crate::top::figures::{cpus, per_s};
use crate::top::model::Model;
use crate::top::rows::Key;
use crate::top::step::{Cell, Step};

/// A figure of a step as a whole number; `None` where it is not known or nobody was there.
type Figure<'a> = dyn Fn(&Step) -> Option<u64> + 'a;

/// Who a chart is about: the host, or a row. Sums are taken without folding whole accounts: a chart
/// looks at hundreds of steps for each drawing.
#[derive(Debug, Clone, Copy)]
enum Whose {
    Host,
    Row(Key),
}

impl Whose {
    fn cells(self, step: &Step) -> Box<dyn Iterator<Item = &Cell> + '_> {
        match self {
            Self::Host => Box::new(step.all()),
            Self::Row(Key::Vcpu(vm, id)) => Box::new(step.vcpu(vm, id).into_iter()),
            Self::Row(Key::Vm(vm)) => Box::new(step.of_vm(Some(vm)).map(|(_, cell)| cell)),
            Self::Row(Key::Unplaced(vm)) => {
                let cells = step.of_vm(vm);
                let nobody = cells.filter(move |(id, _)| vm.is_none() || id.is_none());
                Box::new(nobody.map(|(_, cell)| cell))
            }
        }
    }

    fn sum(self, step: &Step, of: impl Fn(&Account) -> u64) -> u64 {
        let each = self.cells(step).map(|cell| of(&cell.halts));
        each.fold(0, u64::saturating_add)
    }

    fn halts(self, step: &Step) -> u64 {
        whole(per_s(self.sum(step, |halts| halts.halts), step.length_ns()))
    }

    /// Millionths of a CPU, where the halts say whether they polled.
    fn cpu(self, step: &Step, of: impl Fn(&Account) -> u64) -> Option<u64> {
        let mut asked = Account::default();
        asked.halts = self.sum(step, |halts| halts.halts);
        asked.poll_known = self.sum(step, |halts| halts.poll_known);
        let polled = cpus(&asked, self.sum(step, of), step.length_ns());
        polled.map(|cpus| whole(cpus * 1e6))
    }

    fn wasted(self, step: &Step) -> Option<u64> {
        self.cpu(step, |halts| halts.poll_fail_ns.sum())
    }

    fn useful(self, step: &Step) -> Option<u64> {
        self.cpu(step, |halts| halts.poll_success_ns.sum())
    }

    fn p99(self, step: &Step) -> Option<u64> {
        let mut latency = LogHist::default();
        for cell in self.cells(step) {
            latency.merge(&cell.halts.wake_latency_ns);
        }
        latency.percentile(0.99)
    }
}

/// Halts in a second over the last steps.
pub(super) fn halts(model: &Model, key: Key, steps: usize) -> Vec<Option<u64>> {
    series(model, steps, &|step| Some(Whose::Row(key).halts(step)))
}

pub(super) fn host(model: &Model, pen: &mut Pen<'_>, y: u16) {
    let half = pen.width() / 2;
    let place = (0, y, half.saturating_sub(1));
    let style = pen.theme.good();
    let halts = |step: &Step| Some(Whose::Host.halts(step));
    line(model, "Halts/s", &halts, pen, place, style);
    let place = (half, y, pen.width() - half);
    let style = pen.theme.worth();
    line(
        model,
        "Failed",
        &|step| Whose::Host.wasted(step),
        pen,
        place,
        style,
    );
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
    let whose = Whose::Row(key);
    let (good, worth) = (pen.theme.good(), pen.theme.worth());
    let of = |figure: &Figure<'_>| series(model, steps, figure);
    let all = [
        ("Halts/s", Unit::PerSecond, halts(model, key, steps), good),
        ("Failed", Unit::Cpu, of(&|step| whose.wasted(step)), worth),
        (
            "Successful",
            Unit::Cpu,
            of(&|step| whose.useful(step)),
            good,
        ),
        (
            "Wake-up p99",
            Unit::Nanos,
            of(&|step| whose.p99(step)),
            Theme::plain(),
        ),
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

#[derive(Debug, Clone, Copy)]
enum Unit {
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
