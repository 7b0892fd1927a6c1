//! Windows over time: the mean and the largest of each slot, and the ceilings.

use haltwise_core::stats::total;

use super::{BOTTOM, HEIGHT, Path, TOP, WIDTH, figure, hit, line, round, round_up, text};
use crate::html::markup::Markup;
use crate::number::nanos;
use crate::report::view::{AccountFigures, ReportedRecording, WindowSlot};
use crate::words::plural;

const LEFT: f64 = 52.0;
const RIGHT: f64 = 432.0;

/// Draws an account's windows. `None` if no halt knows its window.
pub(crate) fn windows(recording: &ReportedRecording, account: &AccountFigures) -> Option<Markup> {
    let slots = &account.window.slots;
    let known = slots.iter().filter(|slot| slot.window_mean_ns.is_some());
    let known: Vec<_> = known.collect();
    let largest = known.iter().filter_map(|slot| slot.window_max_ns).max()?;
    let ceiling = account.ceilings.iter().map(|ceiling| ceiling.ns).max();
    let top_ns = f64::from(largest.max(ceiling.unwrap_or(0)).max(1_000));
    let top_ns = round_up(top_ns / 1e3) * 1e3;
    let y = |ns: f64| BOTTOM - (ns / top_ns).min(1.0) * (BOTTOM - TOP);
    let span = recording.duration_ns.max(1) as f64;
    let x = |ns: u64| {
        let since = ns.saturating_sub(recording.start_ns) as f64;
        LEFT + (since / span).min(1.0) * (RIGHT - LEFT)
    };
    let (mut areas, mut means, mut values) = (Path::default(), Path::default(), Markup::none());
    let mut last_end = None;
    for slot in &known {
        let end = slot.start_ns.saturating_add(account.window.slot_ns);
        let (from, to) = (x(slot.start_ns), x(end));
        let mean = y(slot.window_mean_ns.unwrap_or(0) as f64);
        let max = y(f64::from(slot.window_max_ns.unwrap_or(0)));
        areas.area((from, max), (to, BOTTOM));
        values.push(hit(from, to, said(slot, recording)));
        if last_end == Some(slot.start_ns) {
            means.step("V", &[mean]);
        } else {
            means.step("M", &[from, mean]);
        }
        means.step("H", &[to]);
        last_end = Some(end);
    }
    let mean_of_means = total(known.iter().filter_map(|slot| slot.window_mean_ns));
    let label = format!(
        "windows over time: {} on average, the largest {}; {} grows, {} shrinks",
        nanos(mean_of_means / known.len().max(1) as u64),
        nanos(largest.into()),
        account.window.grows,
        account.window.shrinks,
    );
    let mut svg = figure(WIDTH, HEIGHT, &label);
    for ns in [0.0, 0.5, 1.0].map(|part| top_ns * part) {
        let place = (LEFT - 4.0, y(ns) + 4.0);
        svg = svg
            .with(line("grid", (LEFT, y(ns)), (RIGHT, y(ns))))
            .with(text("tick", place, "end", &round(ns)));
    }
    let (start, end) = ((LEFT, BOTTOM + 14.0), (RIGHT, BOTTOM + 14.0));
    svg = svg
        .with(areas.drawn("window-max"))
        .with(means.drawn("window-mean"))
        .with(line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM)))
        .with(text("tick", start, "start", "0"))
        .with(text("tick", end, "end", &nanos(recording.duration_ns)));
    for ceiling in account.ceilings.iter().filter(|ceiling| ceiling.halts > 0) {
        let height = y(f64::from(ceiling.ns));
        let (from, to) = (x(ceiling.first_ns), x(ceiling.last_ns));
        svg = svg.with(line("mark", (from, height), (to.max(from + 2.0), height)));
    }
    Some(svg.with(values).into())
}

fn said(slot: &WindowSlot, recording: &ReportedRecording) -> String {
    let or_unknown = |ns: Option<u64>| ns.map_or_else(|| "not known".to_owned(), nanos);
    format!(
        "{}: window {} on average, largest {}; {}",
        nanos(slot.start_ns.saturating_sub(recording.start_ns)),
        or_unknown(slot.window_mean_ns),
        or_unknown(slot.window_max_ns.map(u64::from)),
        plural(slot.halts, "halt"),
    )
}
