//! One account: the verdict, and where the time went. The charts below it are in [`super::charts`].

use super::charts::{histograms, poll_chart, window};
use crate::chart::stacked;
use crate::figures;
use crate::number::{count, maybe_nanos, nanos, percent, scaled, share};
use crate::page::{Page, Stands};
use crate::report::verdict::verdict;
use crate::report::view::{AccountFigures, Report};
use crate::words::plural;

/// Marks of the parts of halted time, in the order of `Parts::named`.
const MARKS: [char; 6] = ['#', 'x', '.', 'w', '~', '?'];

pub(super) fn short(page: &mut Page, account: &AccountFigures) {
    let text = plural(account.halts, "halt");
    page.wrapped("  ", &text, 2);
    halted_time(page, account);
    spreads(page, account);
}

/// Shows an account. `vetoed`: the guest switched polling off.
pub(super) fn account(page: &mut Page, report: &Report, account: &AccountFigures, vetoed: bool) {
    page.gap();
    page.wrapped("  ", &verdict(account, vetoed), 2);
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

fn halted_time(page: &mut Page, account: &AccountFigures) {
    page.wrapped(
        "  ",
        &format!(
            "Halted {} of {} time: {} halts/s, {} sleeps/s (two context switches each)",
            share(account.halted_share),
            if account.vcpus == 1 {
                "the"
            } else {
                "its vCPUs'"
            },
            scaled(account.halts_per_s),
            scaled(account.waits_per_s),
        ),
        2,
    );
    parts_bar(page, account);
    let whole = account.halted_ns;
    let no_latency = account.waits > 0 && account.wake_latency_ns.is_none();
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
            '~' => "woken before schedule()".to_owned(),
            _ => "not recorded".to_owned(),
        };
        // Where time is mostly unknown, it is not known whether it holds some of this; nor how a wait
        // falls into sleep and wake-up where no latency is known.
        let split = matches!(mark, '.' | 'w') && no_latency;
        let told = ns > 0 || (account.parts.unknown_ns <= whole / 2 && !split);
        let or_dash = |text: String| if told { text } else { "-".to_owned() };
        rows.push(vec![
            format!("{mark} {name}"),
            or_dash(nanos(ns)),
            or_dash(percent(ns as f64, whole as f64)),
            or_dash(comment),
        ]);
    }
    let stands = [Stands::Left, Stands::Right, Stands::Right, Stands::Left];
    page.table(2, &stands, &rows);
}

pub(super) fn parts_bar(page: &mut Page, account: &AccountFigures) {
    let parts = account.parts.named().into_iter().zip(MARKS);
    let parts: Vec<(char, u64)> = parts.map(|((_, ns), mark)| (mark, ns)).collect();
    let bar = stacked(&parts, page.width().saturating_sub(6));
    page.line(&format!("  [{bar}]"));
}

fn spreads(page: &mut Page, account: &AccountFigures) {
    let mut rows = vec![["", "p50", "p95", "p99", "max"].map(str::to_owned).to_vec()];
    for (name, spread) in [
        ("gap (halt to wake event)", account.gap_ns),
        ("wake-up latency of sleeps", account.wake_latency_ns),
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
    let stands = Stands::of_numbers::<5>();
    page.table(2, &stands, &rows);
}

fn wakes(page: &mut Page, account: &AccountFigures) {
    let mut sources: Vec<_> = figures::wakes(account.wakes).collect();
    sources.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let told: Vec<String> = sources
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{name} {}", percent(*n as f64, account.halts as f64)))
        .collect();
    page.wrapped("  woken by  ", &told.join(", "), 12);
    if account.invalid > 0 {
        let text = format!(
            "KVM did not count {} wake-ups as valid",
            count(account.invalid)
        );
        page.wrapped("  ", &text, 2);
    }
}
