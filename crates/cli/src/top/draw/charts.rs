//! Figures over time: sparklines, charts of several lines, and where in time the screen stands.

use haltwise_core::account::Account;
use haltwise_core::hist::LogHist;
use haltwise_core::stats::total;
use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::{Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline, Widget};
use unicode_width::UnicodeWidthStr;

use crate::chart::{bar, sparkline, stacked};
use crate::figures::wakes;
use crate::number::{nanos, percent, scaled, share, whole};
use crate::top::draw::{GOOD, WORTH, filled};
use crate::top::figures::{self, CountedReason, cpus, per_s};
use crate::top::model::Model;
use crate::top::step::{Cell, Key, Step};

/// A figure of a subject in a step as a whole number; `None` where it is not known. Sums are taken
/// without folding whole accounts: a chart looks at hundreds of steps for each drawing.
type Figure = fn(&Step, Key) -> Option<u64>;
type Show = fn(u64) -> String;

fn sum(step: &Step, key: Key, of: impl Fn(&Account) -> u64) -> u64 {
    total(step.of(key).map(|(_, cell)| of(&cell.halts)))
}

#[expect(clippy::unnecessary_wraps, reason = "a Figure")]
fn halts(step: &Step, key: Key) -> Option<u64> {
    let halts = sum(step, key, |halts| halts.halts);
    Some(whole(per_s(halts, step.length_ns() as f64)))
}

/// Millionths of a CPU, where the halts say whether they polled.
fn cpu(step: &Step, key: Key, of: impl Fn(&Account) -> u64) -> Option<u64> {
    let mut asked = Account::default();
    asked.halts = sum(step, key, |halts| halts.halts);
    asked.poll_known = sum(step, key, |halts| halts.poll_known);
    let polled = cpus(&asked, sum(step, key, of), step.length_ns());
    polled.map(|cpus| whole(cpus * 1e6))
}

fn failed(step: &Step, key: Key) -> Option<u64> {
    cpu(step, key, |halts| halts.poll_fail_ns.sum())
}

fn successful(step: &Step, key: Key) -> Option<u64> {
    cpu(step, key, |halts| halts.poll_success_ns.sum())
}

fn p99(step: &Step, key: Key) -> Option<u64> {
    let mut latency = LogHist::default();
    for (_, cell) in step.of(key) {
        latency.merge(&cell.halts.wake_latency_ns);
    }
    latency.percentile(0.99)
}

fn series(model: &Model, key: Key, steps: usize, figure: Figure) -> Vec<Option<u64>> {
    let steps = model.timeline.before(steps);
    steps.map(|step| figure(step, key)).collect()
}

fn spark(model: &Model, key: Key, steps: usize, figure: Figure) -> String {
    let values = series(model, key, steps, figure);
    let full = values.iter().copied().flatten().max();
    sparkline(&values, full.unwrap_or(0))
}

pub(super) fn history(model: &Model, key: Key, steps: usize) -> String {
    spark(model, key, steps, halts)
}

pub(super) fn host(model: &Model, width: usize) -> Line<'static> {
    let half = |name: &'static str, width: usize, figure: Figure, style: Style| {
        let room = width.saturating_sub(name.len());
        let spark = spark(model, Key::Host, room, figure);
        Line::from(vec![name.dim(), Span::styled(spark, style)])
    };
    let left = width / 2;
    let mut line = filled(half("Halts/s ", left.saturating_sub(1), halts, GOOD), left);
    line.extend(half("Failed ", width - left, failed, WORTH));
    line
}

/// The least lines of four charts.
pub(super) const LEAST: u16 = 4;

const HIGHEST: u16 = 10;

/// Columns of the names and values beside the charts.
const LABEL: u16 = 16;

pub(super) fn draw(model: &Model, key: Key, area: Rect, buffer: &mut Buffer) {
    let millionths = |value: u64| share(value as f64 / 1e6);
    let all: [(_, Figure, Show, _); 4] = [
        ("Halts/s", halts, |value| scaled(value as f64), GOOD),
        ("Failed", failed, millionths, WORTH),
        ("Successful", successful, millionths, GOOD),
        ("Wake-up p99", p99, nanos, Style::new()),
    ];
    let each = Length((area.height / 4).clamp(1, HIGHEST));
    let areas: [Rect; 4] = Layout::vertical([each; 4]).areas(area);
    for ((name, figure, show, style), area) in all.into_iter().zip(areas) {
        let [label, chart] = Layout::horizontal([Length(LABEL), Fill(1)]).areas(area);
        let values = series(model, key, chart.width.into(), figure);
        let full = values.iter().copied().flatten().max();
        let shown = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), show);
        let text: [Line<'_>; 3] = [
            name.into(),
            format!(" {}", shown(values.last().copied().flatten()))
                .bold()
                .into(),
            format!(" top {}", shown(full)).dim().into(),
        ];
        Paragraph::new(text.to_vec()).render(label, buffer);
        sparkline_of(&values, full.unwrap_or(0), style, chart, buffer);
    }
}

/// A sparkline of several lines: a value that is not zero leaves a mark, a zero a dot, an unknown one nothing.
fn sparkline_of(values: &[Option<u64>], full: u64, style: Style, area: Rect, buffer: &mut Buffer) {
    let least = full.div_ceil(u64::from(area.height) * 8);
    let visible = |value: u64| if value > 0 { value.max(least) } else { 0 };
    let bars = values.iter().map(|value| value.map(visible));
    let chart = Sparkline::default().data(bars).max(full.max(1));
    chart.style(style).render(area, buffer);
    let lowest = area.rows().next_back().unwrap_or_default();
    for (cell, value) in lowest.columns().zip(values) {
        if *value == Some(0) {
            buffer.set_string(cell.x, cell.y, ".", style);
        }
    }
}

pub(super) fn time_bar(model: &Model, width: usize) -> Line<'static> {
    let Some(step) = model.step() else {
        return Line::default();
    };
    let (first, last) = model.timeline.span();
    let utc = model.origin.utc(step.end_ns).unwrap_or_default();
    let start = "Time [";
    let end = format!(
        "] {} of {}  {utc}",
        model.timeline.position() + 1,
        model.timeline.len()
    );
    let room = width.saturating_sub(start.len() + end.width());
    let at = step.end_ns.saturating_sub(first);
    let done = bar('=', at, last.saturating_sub(first), room);
    let mut line = Line::from(start.dim());
    line.extend(filled(done.bold(), room));
    line.push_span(end.dim());
    line
}

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
pub(super) const PARTS_LEAST: u16 = 5;

/// Lines of it, with so many reasons of exits where these are counted.
pub(super) fn parts_height(model: &Model, reasons: u16) -> u16 {
    PARTS_LEAST + if model.exits() { 1 + reasons } else { 0 }
}

pub(super) fn parts(model: &Model, key: Key, vcpus: u64, area: Rect) -> Vec<Line<'static>> {
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
    let bar = stacked(&marked, usize::from(area.width.saturating_sub(2)));
    let bar = match total {
        0 => String::new(),
        _ => format!("[{bar}]"),
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
            let rate = per_s(count, step.length_ns() as f64);
            format!("{source} {}/s", scaled(rate))
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
