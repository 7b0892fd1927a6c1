//! One account: the verdict, where the time went, the charts.

use super::layout::{Page, Stands};
use crate::report::chart::{bar, sparkline, stacked};
use crate::report::number::{count, maybe_nanos, nanos, percent, scaled, share};
use crate::report::view::{AccountView, BucketView, PollBarView, Report, SlotView};
use crate::report::words;

/// Marks of the parts of halted time, in the order of `Parts::named`.
const MARKS: [char; 6] = ['#', 'x', '.', 'w', '~', '?'];

/// Rows of a histogram at most; the ends are folded.
const ROWS: usize = 14;

/// Shows an account.
pub(super) fn account(page: &mut Page, report: &Report, account: &AccountView) {
    page.gap();
    page.wrapped("  ", &words::worth(account), 2);
    page.gap();
    halted_time(page, account);
    page.gap();
    spreads(page, account);
    wakes(page, account);
    page.gap();
    poll_chart(page, account);
    page.gap();
    histograms(page, account);
    page.gap();
    window(page, report, account);
}

fn halted_time(page: &mut Page, account: &AccountView) {
    page.wrapped(
        "  ",
        &format!(
            "Halted {} of the time: {} halts/s, {} waits/s (two context switches each)",
            share(account.halted_share),
            scaled(account.halts_per_s),
            scaled(account.waits_per_s),
        ),
        2,
    );
    parts_bar(page, account);
    let whole = account.halted_ns;
    let mut rows = Vec::new();
    for ((name, ns), mark) in account.parts.named().into_iter().zip(MARKS) {
        if ns == 0 && !matches!(mark, '#' | 'x' | '.' | 'w') {
            continue;
        }
        let cpu = ns as f64 / account.span_ns.max(1) as f64;
        let comment = match mark {
            '#' | 'x' => format!("{} of a CPU", share(cpu)),
            '.' => "CPU free for others".to_owned(),
            'w' => "wake event until running".to_owned(),
            '~' => "woken on the way to sleep".to_owned(),
            _ => "the recording cannot tell".to_owned(),
        };
        rows.push(vec![
            format!("{mark} {name}"),
            nanos(ns),
            percent(ns as f64, whole as f64),
            comment,
        ]);
    }
    let stands = [Stands::Left, Stands::Right, Stands::Right, Stands::Left];
    page.table(2, &stands, &rows);
}

/// The parts of halted time in one bar.
pub(super) fn parts_bar(page: &mut Page, account: &AccountView) {
    let parts = account.parts.named().into_iter().zip(MARKS);
    let parts: Vec<(char, u64)> = parts.map(|((_, ns), mark)| (mark, ns)).collect();
    let bar = stacked(&parts, page.width().saturating_sub(6));
    page.line(&format!("  [{bar}]"));
}

fn spreads(page: &mut Page, account: &AccountView) {
    let mut rows = vec![["", "p50", "p95", "p99", "max"].map(str::to_owned).to_vec()];
    for (name, spread) in [
        ("gap (halt to wake event)", account.gap_ns),
        ("wake-up latency", account.wake_latency_ns),
        ("whole halt", account.halt_ns),
    ] {
        let mut cells = vec![name.to_owned()];
        let values = [
            spread.map(|s| s.p50),
            spread.map(|s| s.p95),
            spread.map(|s| s.p99),
            spread.map(|s| s.max),
        ];
        cells.extend(values.map(maybe_nanos));
        rows.push(cells);
    }
    let stands = [
        Stands::Left,
        Stands::Right,
        Stands::Right,
        Stands::Right,
        Stands::Right,
    ];
    page.table(2, &stands, &rows);
}

fn wakes(page: &mut Page, account: &AccountView) {
    let wakes = &account.wakes;
    let mut sources = [
        ("timer", wakes.timer),
        ("ipi", wakes.ipi),
        ("device", wakes.device),
        ("other", wakes.other),
        ("unknown", wakes.unknown),
    ];
    sources.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let told: Vec<String> = sources
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{name} {}", percent(*n as f64, account.halts as f64)))
        .collect();
    page.wrapped("  woken by  ", &told.join(", "), 12);
}

fn poll_chart(page: &mut Page, account: &AccountView) {
    let poll = &account.poll;
    let Some(not_polled) = poll.not_polled else {
        page.wrapped("  ", "Poll time against count: not known for any halt.", 2);
        return;
    };
    let cut = match poll.cut {
        Some(0) | None => String::new(),
        Some(cut) => format!(
            "; {} ({} of polls) cut for another task",
            count(cut),
            percent(cut as f64, poll.polled as f64)
        ),
    };
    page.wrapped(
        "  ",
        &format!(
            "Poll time against count: {} polls, # {} woken by it, x {} in vain{cut}",
            count(poll.polled),
            count(poll.successful),
            count(poll.failed),
        ),
        2,
    );
    let zero = &poll.zero;
    let mut rows = vec![("no poll".to_owned(), '-', not_polled, 0)];
    if zero.successful + zero.failed > 0 {
        rows.push(("0".to_owned(), '#', zero.successful, zero.failed));
    }
    for bar in &folded(&poll.time_against_count) {
        rows.push((nanos(bar.low_ns), '#', bar.successful, bar.failed));
    }
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
            percent(all as f64, poll.known as f64),
        ));
    }
}

/// The bars that matter: small ones at both ends are added to their neighbours.
fn folded(bars: &[PollBarView]) -> Vec<PollBarView> {
    let mut kept: Vec<PollBarView> = Vec::new();
    let skip = bars.len().saturating_sub(ROWS);
    for (n, bar) in bars.iter().enumerate() {
        match kept.last_mut() {
            Some(first) if n <= skip => {
                first.high_ns = bar.high_ns;
                first.successful += bar.successful;
                first.failed += bar.failed;
            }
            _ => kept.push(PollBarView { ..*bar }),
        }
    }
    kept
}

fn histograms(page: &mut Page, account: &AccountView) {
    let (gaps, wakes) = (&account.gap_histogram, &account.wake_latency_histogram);
    if gaps.is_empty() && wakes.is_empty() {
        return;
    }
    let ceiling = account.ceilings.last().map(|ceiling| u64::from(ceiling.ns));
    let all = |rows: &[BucketView]| rows.iter().map(|row| row.count).sum::<u64>();
    let (all_gaps, all_wakes) = (all(gaps), all(wakes));
    let rows = octaves(gaps, wakes);
    let most = |n: usize| rows.iter().map(|row| [row.1, row.2][n]).max().unwrap_or(0);
    let (most_gaps, most_wakes) = (most(0), most(1));
    let width = page.width().saturating_sub(34) / 2;
    page.line(&format!(
        "  {:>8}  {:<wide$}  {:<wide$}",
        "from",
        "gap",
        "wake-up latency",
        wide = width + 9
    ));
    for (low, gap, wake) in rows {
        let here = ceiling.is_some_and(|c| c > 0 && low <= c && c < low.saturating_mul(2));
        let cell = |n: u64, all: u64, most: u64| {
            if n == 0 {
                return format!("{:<wide$}", "|", wide = width + 9);
            }
            let drawn = bar('#', n, most, width);
            format!(
                "{:<w$} {:>7}",
                format!("|{drawn}"),
                percent(n as f64, all as f64),
                w = width + 1
            )
        };
        page.line(&format!(
            "  {:>8}  {}  {}{}",
            nanos(low),
            cell(gap, all_gaps, most_gaps),
            cell(wake, all_wakes, most_wakes),
            if here { " <- ceiling" } else { "" },
        ));
    }
}

/// Both histograms in the same powers of two: `(low, gaps, wakes)`. Rows beyond [`ROWS`] are folded
/// where they hold least: into the first and the last.
fn octaves(gaps: &[BucketView], wakes: &[BucketView]) -> Vec<(u64, u64, u64)> {
    let mut rows: Vec<(u64, u64, u64)> = Vec::new();
    let mut lows: Vec<u64> = gaps.iter().chain(wakes).map(|row| row.low_ns).collect();
    lows.sort_unstable();
    lows.dedup();
    let of = |rows: &[BucketView], low| {
        let row = rows.iter().find(|row| row.low_ns == low);
        row.map_or(0, |row| row.count)
    };
    for low in lows {
        rows.push((low, of(gaps, low), of(wakes, low)));
    }
    while rows.len() > ROWS {
        let weight = |row: &(u64, u64, u64)| row.1.saturating_add(row.2);
        let last = rows.len() - 1;
        if weight(&rows[0]) <= weight(&rows[last]) {
            let first = rows.remove(0);
            rows[0].1 += first.1;
            rows[0].2 += first.2;
        } else {
            let tail = rows.remove(last);
            rows[last - 1].1 += tail.1;
            rows[last - 1].2 += tail.2;
        }
    }
    rows
}

/// The window over the time of the recording.
pub(super) fn window(page: &mut Page, report: &Report, account: &AccountView) {
    let view = &account.window;
    let known = view.slots.iter().filter_map(|slot| slot.window_max_ns);
    let Some(largest) = known.max() else { return };
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
    page.wrapped(
        "  ",
        &format!(
            "Window over time (mean of each {}, full height {}){changes}",
            nanos(view.slot_ns),
            nanos(full)
        ),
        2,
    );
    page.line(&format!("  [{}]", sparkline(&values, full)));
}

/// One value for each slot from the start of the recording to its end.
fn timeline(report: &Report, account: &AccountView, columns: usize) -> Vec<Option<u64>> {
    let slot_ns = account.window.slot_ns.max(1);
    let first = report.recording.start_ns / slot_ns;
    let end = report.recording.start_ns + report.recording.duration_ns;
    let n = usize::try_from((end / slot_ns).saturating_sub(first)).unwrap_or(usize::MAX);
    let n = n.saturating_add(1).min(columns);
    let mut values = vec![None; n];
    let place =
        |slot: &SlotView| usize::try_from((slot.start_ns / slot_ns).checked_sub(first)?).ok();
    for slot in &account.window.slots {
        if let Some(value) = place(slot).and_then(|at| values.get_mut(at)) {
            *value = slot.window_mean_ns;
        }
    }
    values
}
