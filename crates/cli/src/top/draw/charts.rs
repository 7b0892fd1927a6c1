//! Figures over time: sparklines, charts of several lines, and where in time the screen stands.

use haltwise_core::account::Account;
use haltwise_core::hist::LogHist;
use haltwise_core::stats::total;
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::theme::{Theme, filled};
use crate::chart::{bar, sparkline};
use crate::number::{nanos, scaled, share, whole};
use crate::top::figures::{cpus, per_s};
use crate::top::model::Model;
use crate::top::step::{Key, Step};

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

/// A figure of the last steps, oldest first.
fn series(model: &Model, key: Key, steps: usize, figure: Figure) -> Vec<Option<u64>> {
    let steps = model.timeline.before(steps);
    steps.map(|step| figure(step, key)).collect()
}

fn spark(model: &Model, key: Key, steps: usize, figure: Figure) -> String {
    let values = series(model, key, steps, figure);
    let full = values.iter().copied().flatten().max();
    sparkline(&values, full.unwrap_or(0))
}

/// Halts in a second over the last steps.
pub(super) fn history(model: &Model, key: Key, steps: usize) -> String {
    spark(model, key, steps, halts)
}

/// The whole host, in two halves of a line.
pub(super) fn host(model: &Model, theme: Theme, width: usize) -> Line<'static> {
    let half = |name: &'static str, width: usize, figure: Figure, style: Style| {
        let room = width.saturating_sub(name.len());
        let spark = spark(model, Key::Host, room, figure);
        Line::from(vec![name.dim(), Span::styled(spark, style)])
    };
    let left = width / 2;
    let halts = half("Halts/s ", left.saturating_sub(1), halts, theme.good());
    let mut line = filled(halts, left);
    line.extend(half("Failed ", width - left, failed, theme.worth()));
    line
}

/// Four charts of a VM or a vCPU, one below the other, in so many lines.
pub(super) fn four(
    model: &Model,
    key: Key,
    theme: Theme,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let (good, worth) = (theme.good(), theme.worth());
    let millionths = |value: u64| share(value as f64 / 1e6);
    let all: [(_, Figure, Show, _); 4] = [
        ("Halts/s", halts, |value| scaled(value as f64), good),
        ("Failed", failed, millionths, worth),
        ("Successful", successful, millionths, good),
        ("Wake-up p99", p99, nanos, Style::new()),
    ];
    let each = (height / 4).clamp(1, HIGHEST);
    let charts = all.into_iter().take(height / each);
    let charts = charts.flat_map(|(name, figure, show, style)| {
        let values = series(model, key, width.saturating_sub(LABEL), figure);
        chart(name, show, &values, each, style)
    });
    charts.collect()
}

const HIGHEST: usize = 10;

const LABEL: usize = 16;

/// A chart of several lines, with its name, its newest value and its highest at the left.
fn chart(
    name: &'static str,
    show: impl Fn(u64) -> String,
    values: &[Option<u64>],
    height: usize,
    style: Style,
) -> Vec<Line<'static>> {
    let full = values.iter().copied().flatten().max();
    let said = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), &show);
    let now = format!(" {}", said(values.last().copied().flatten()));
    let top = format!(" top {}", said(full));
    let mut labels = [name.into(), now.bold(), top.dim()].into_iter();
    let (full, levels) = (u128::from(full.unwrap_or(0).max(1)), height as u128 * 8);
    let level = |value: u64| {
        let scaled = u128::from(value) * levels / full;
        u64::try_from(scaled).unwrap_or(0).max(u64::from(value > 0))
    };
    let lines = (0..height as u64).rev().map(|line| {
        let below = line * 8;
        // A zero stands on the lowest line alone.
        let piece = |value: u64| {
            let above = level(value).saturating_sub(below).min(8);
            (above > 0 || below == 0).then_some(above)
        };
        let pieces: Vec<Option<u64>> = values.iter().map(|value| piece((*value)?)).collect();
        let mut line = filled(labels.next().unwrap_or_default(), LABEL);
        line.push_span(Span::styled(sparkline(&pieces, 8), style));
        line
    });
    lines.collect()
}

/// Where in time the screen stands.
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
