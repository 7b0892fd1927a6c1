//! The charts of an account: poll time against count, gaps and latencies, the window over time.

use std::collections::VecDeque;

use haltwise_core::hist::Octave;
use haltwise_core::stats::total;

use crate::chart::{bar, sparkline, stacked};
use crate::number::{count, nanos, percent};
use crate::page::Page;
use crate::report::view::{AccountFigures, PollBar, Report, WindowSlot};

/// Rows of a chart at most; those at the low end are folded into one.
const ROWS: usize = 14;

/// *Poll time against count*: the chart by which one tunes a ceiling.
pub(super) fn poll_chart(page: &mut Page, account: &AccountFigures) {
    let poll = &account.poll;
    let Some(not_polled) = poll.not_polled else {
        page.prose("Polls by duration: not recorded.");
        return;
    };
    if poll.polled == 0 {
        page.prose("Polls by duration: no halt polled.");
        return;
    }
    let cut = match poll.cut {
        Some(0) | None => String::new(),
        Some(cut) => format!(
            "; {} ({} of polls) preempted",
            count(cut),
            percent(cut as f64, poll.polled as f64)
        ),
    };
    page.prose(&format!(
        "Polls by duration: {} polls, # {} successful, x {} failed{cut}",
        count(poll.polled),
        count(poll.successful),
        poll.failed.map_or_else(|| "-".to_owned(), count),
    ));
    let zero = &poll.zero;
    let mut rows = vec![("no poll".to_owned(), '-', not_polled, 0)];
    if zero.successful + zero.failed > 0 {
        rows.push(("0".to_owned(), '#', zero.successful, zero.failed));
    }
    for bar in folded(poll.time_against_count.iter().copied()) {
        rows.push((nanos(bar.low_ns), '#', bar.successful, bar.failed));
    }
    bars(page, rows, poll.known);
}

/// Bars of a label, a mark, what the mark counts, and what failed.
fn bars(page: &mut Page, rows: Vec<(String, char, u64, u64)>, of: u64) {
    let full = rows.iter().map(|row| row.2.saturating_add(row.3)).max();
    let full = full.unwrap_or(0);
    let width = page.width().saturating_sub(32);
    for (label, mark, successful, failed) in rows {
        let all = successful.saturating_add(failed);
        let drawn = bar(mark, all, full, width);
        let length = drawn.chars().count();
        let drawn = if all == 0 || drawn == "." {
            drawn
        } else {
            stacked(&[(mark, successful), ('x', failed)], length)
        };
        page.line(&format!(
            "  {label:>8} {:>7} {:>7} |{drawn}",
            count(all),
            percent(all as f64, of as f64),
        ));
    }
}

/// The bars that matter: at the low end those that together hold less than one in two hundred are added to their
/// neighbours, then at the lighter end those beyond [`ROWS`]. A bar reaches from its label to that of the next, the last to
/// the largest value, so that no label is wrong.
fn folded(bars: impl IntoIterator<Item = PollBar>) -> Vec<PollBar> {
    let weight = |bar: &PollBar| bar.successful.saturating_add(bar.failed);
    let mut bars: VecDeque<PollBar> = bars.into_iter().collect();
    let all = total(bars.iter().map(weight));
    while bars.front().is_some_and(|bar| weight(bar) == 0) {
        bars.pop_front();
    }
    while let [Some(first), Some(second), Some(last)] =
        [bars.front(), bars.get(1), bars.back()].map(|bar| bar.map(weight))
    {
        let is_small = first.saturating_add(second).saturating_mul(200) < all;
        if !is_small && bars.len() <= ROWS {
            break;
        }
        let (end, near) = if is_small || first <= last {
            (bars.pop_front(), bars.front_mut())
        } else {
            (bars.pop_back(), bars.back_mut())
        };
        if let (Some(end), Some(near)) = (end, near) {
            near.low_ns = near.low_ns.min(end.low_ns);
            near.high_ns = near.high_ns.max(end.high_ns);
            near.successful = near.successful.saturating_add(end.successful);
            near.failed = near.failed.saturating_add(end.failed);
        }
    }
    bars.into()
}

pub(super) fn histograms(page: &mut Page, account: &AccountFigures) {
    let rows = octaves(&account.gap_histogram, &account.wake_latency_histogram);
    if rows.is_empty() {
        return;
    }
    let ceiling = account.ceilings.last().map_or(0, |ceiling| ceiling.ns);
    let ceiling = u64::from(ceiling);
    let legend = if ceiling > 0 {
        format!(" (> holds the ceiling, {})", nanos(ceiling))
    } else {
        String::new()
    };
    page.wrapped(
        "  ",
        &format!("Gaps and wake-up latencies by powers of two{legend}"),
        2,
    );
    let column = |of: fn(&PollBar) -> u64| {
        let all = total(rows.iter().map(of));
        (all, rows.iter().map(of).max().unwrap_or(0))
    };
    let (gaps, wakes) = (column(|row| row.successful), column(|row| row.failed));
    let width = page.width().saturating_sub(35) / 2;
    page.line(&format!(
        "  {:>10}  {:<wide$} wake-up latency",
        "from",
        "gap",
        wide = width + 10
    ));
    for row in &rows {
        let cell = |n: u64, (all, most): (u64, u64)| {
            let drawn = format!("|{}", bar('#', n, most, width));
            let told = if n == 0 {
                String::new()
            } else {
                percent(n as f64, all as f64)
            };
            format!("{drawn:<wide$} {told:>8}", wide = width + 1)
        };
        let holds_ceiling = ceiling > 0 && (row.low_ns..=row.high_ns).contains(&ceiling);
        page.line(&format!(
            "  {}{:>9}  {} {}",
            if holds_ceiling { '>' } else { ' ' },
            nanos(row.low_ns),
            cell(row.successful, gaps),
            cell(row.failed, wakes),
        ));
    }
}

/// Every power of two from the shortest to the longest: gaps as `successful`, wake-up latencies as `failed`.
fn octaves(gaps: &[Octave], wakes: &[Octave]) -> Vec<PollBar> {
    let all = || gaps.iter().chain(wakes).map(|row| row.low_ns);
    let (Some(first), Some(last)) = (all().min(), all().max()) else {
        return Vec::new();
    };
    let of = |rows: &[Octave], low| {
        let row = rows.iter().find(|row| row.low_ns == low);
        row.map_or(0, |row| row.count)
    };
    let next = |low: &u64| (*low < last).then(|| (low * 2).max(1));
    let lows = std::iter::successors(Some(first), next);
    folded(lows.map(|low| PollBar {
        low_ns: low,
        high_ns: if low == 0 { 0 } else { low + (low - 1) },
        successful: of(gaps, low),
        failed: of(wakes, low),
    }))
}

pub(super) fn window(page: &mut Page, report: &Report, account: &AccountFigures) {
    let view = &account.window;
    let known = view.slots.iter().filter_map(|slot| slot.window_max_ns);
    let Some(largest) = known.max() else { return };
    if largest == 0 {
        page.prose("Window over time: 0 all the time.");
        return;
    }
    let ceiling = account.ceilings.last().map(|ceiling| ceiling.ns);
    let full = u64::from(ceiling.unwrap_or(0).max(largest));
    let values = timeline(report, account, page.width().saturating_sub(6));
    let changes = match (view.grows, view.shrinks) {
        (0, 0) => String::new(),
        (grows, shrinks) => format!(
            ", grew {} and shrank {} times",
            count(grows),
            count(shrinks)
        ),
    };
    page.prose(&format!(
        "Window over time (mean of each {}, full height {}){changes}",
        nanos(view.slot_ns),
        nanos(full)
    ));
    page.line(&format!("  [{}]", sparkline(&values, full)));
    let bar = |row: &Octave| PollBar {
        low_ns: row.low_ns,
        high_ns: row.high_ns,
        successful: row.count,
        failed: 0,
    };
    let (zero, open): (Vec<PollBar>, Vec<PollBar>) =
        (view.histogram.iter().map(bar)).partition(|bar| bar.high_ns == 0);
    let rows = zero.into_iter().chain(folded(open));
    let rows: Vec<_> = rows
        .map(|bar| (nanos(bar.low_ns), '#', bar.successful, 0))
        .collect();
    if !rows.is_empty() {
        page.gap();
        page.prose("Windows at entry of the halts");
        let known = total(rows.iter().map(|row| row.2));
        bars(page, rows, known);
    }
}

/// One value for each slot from the start of the recording to its end.
fn timeline(report: &Report, account: &AccountFigures, columns: usize) -> Vec<Option<u64>> {
    let slot_ns = account.window.slot_ns.max(1);
    let first = report.recording.start_ns / slot_ns;
    let end = report.recording.start_ns + report.recording.duration_ns;
    let n = usize::try_from((end / slot_ns).saturating_sub(first)).unwrap_or(usize::MAX);
    let n = n.saturating_add(1).min(columns);
    let mut values = vec![None; n];
    let place =
        |slot: &WindowSlot| usize::try_from((slot.start_ns / slot_ns).checked_sub(first)?).ok();
    for slot in &account.window.slots {
        if let Some(value) = place(slot).and_then(|at| values.get_mut(at)) {
            *value = slot.window_mean_ns;
        }
    }
    values
}
