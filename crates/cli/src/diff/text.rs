//! The view on a screen: what differs around the figures, then the figures that differ, largest first.

use haltwise_core::diff::figure::{Figure, Unit};
use haltwise_core::diff::judge::Verdict;
use haltwise_core::exit::Kind;
use haltwise_core::tune::interval::Interval;

use super::view::{CaptureView, ComparisonView, EstimateView, View};
use crate::number::{count, nanos, nanos_f64, scaled, share, three_digits};
use crate::page::{Page, Stands, harmless};
use crate::words::{plural, some};

/// Rows of the first screen.
const ROWS: usize = 20;

/// Names of VMs that are listed; JSON has all.
const NAMES: usize = 6;

/// What to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Columns of the screen.
    pub(crate) width: usize,
    /// What may be chance too.
    pub(crate) all: bool,
}

/// Shows it.
pub(crate) fn render(view: &View, options: Options) -> String {
    let mut page = Page::new(options.width);
    capture(&mut page, "A", &view.a);
    capture(&mut page, "B", &view.b);
    if let Some(vm) = whose(view) {
        page.wrapped(
            "   ",
            &format!("All figures are for VM {}.", harmless(vm)),
            3,
        );
    }
    page.heading("Differences in setup");
    circumstances(&mut page, view);
    let rows = |verdict: Verdict| -> Vec<&ComparisonView> {
        let rows = view.comparisons.iter();
        rows.filter(|row| row.verdict == verdict).collect()
    };
    let different = rows(Verdict::Different);
    page.heading(&format!(
        "{} of {} figures differ, the largest difference first",
        view.different, view.compared
    ));
    if different.is_empty() {
        page.wrapped("  ", &nothing(view), 2);
    } else {
        let most = if options.all { usize::MAX } else { ROWS };
        table(&mut page, view, &different[..different.len().min(most)]);
        if different.len() > most {
            page.line(&format!("{} more: --all", different.len() - most));
        }
    }
    if options.all {
        for (verdict, heading) in [
            (Verdict::MayBeChance, "Not significant"),
            (Verdict::TooShort, "Too short to compare"),
            (Verdict::NotTold, "Not in both captures"),
        ] {
            let rows = rows(verdict);
            if !rows.is_empty() {
                page.heading(heading);
                table(&mut page, view, &rows);
            }
        }
    }
    closing(&mut page, view, options);
    page.finish()
}

fn capture(page: &mut Page, which: &str, view: &CaptureView) {
    let text = format!(
        "{}: {}, Linux {}, {} of {} in {}{}",
        harmless(&view.path),
        harmless(&view.host),
        harmless(&view.kernel),
        plural(view.halts, "halt"),
        plural(view.vms as u64, "VM"),
        nanos(view.duration_ns),
        match &view.started_utc {
            Some(utc) => format!(", from {utc}"),
            None => String::new(),
        },
    );
    page.wrapped(&format!("{which}  "), &text, 3);
}

fn circumstances(page: &mut Page, view: &View) {
    if view.circumstances.is_empty() {
        let text = "None: same host, kernel, source, mode and settings.";
        page.wrapped("  ", text, 2);
    } else {
        for it in &view.circumstances {
            let text = format!("A {}; B {}", harmless(&it.a), harmless(&it.b));
            page.wrapped(&format!("  {}: ", harmless(&it.what)), &text, 4);
        }
    }
    for (which, names) in [("A", &view.only_a), ("B", &view.only_b)] {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| harmless(name)).collect();
            page.wrapped(&format!("  only in {which}: "), &some(&names, NAMES), 4);
        }
    }
    if !view.only_a.is_empty() && !view.only_b.is_empty() {
        page.wrapped("  ", "`--vm NAME=NAME` compares VMs of different names.", 2);
    }
}

/// Whether figures are of several VMs, or of VMs and the host: else a row need not say whose it is.
pub(crate) fn is_of_several(view: &View) -> bool {
    let mut whose = view.comparisons.iter().map(|row| &row.vm);
    let first = whose.next();
    whose.any(|vm| Some(vm) != first)
}

/// The VM that all figures are of; `None` where its names in A and B differ, which is said as a circumstance.
pub(crate) fn whose(view: &View) -> Option<&str> {
    let first = view.comparisons.first().filter(|_| !is_of_several(view))?;
    first.vm.as_deref().filter(|_| first.vm == first.vm_b)
}

/// Why no figure differs.
pub(crate) fn nothing(view: &View) -> String {
    if view.compared == 0 {
        return "Too short, or not recorded: no figure has enough time slices with halts or exits in \
                both captures. --all shows what was recorded."
            .to_owned();
    }
    "No significant differences. --all prints every figure with its confidence interval.".to_owned()
}

fn table(page: &mut Page, view: &View, rows: &[&ComparisonView]) {
    let several = is_of_several(view);
    let told = rows.iter().any(|row| row.p.is_some());
    let mut head = vec!["", "A", "B"];
    if told {
        head.extend(["change", "B - A, 95 % CI"]);
    }
    let mut cells = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for row in rows {
        let mut line = vec![
            name(row, several),
            value(row.a, row.unit),
            value(row.b, row.unit),
        ];
        if told {
            line.extend([change(row), interval(row)]);
        }
        cells.push(line);
    }
    let mut stands = vec![Stands::Left];
    stands.resize(cells[0].len(), Stands::Right);
    page.table(2, &stands, &cells);
}

/// What a figure is called, and whose it is where that is not plain.
pub(crate) fn name(row: &ComparisonView, several: bool) -> String {
    let figure = match row.figure {
        Figure::Halts => "halts/s",
        Figure::Blocks => "blocks/s",
        Figure::SuccessfulPolls => "successful polls",
        Figure::PollUsefulCpu => "useful polling, CPU",
        Figure::PollWastedCpu => "wasted polling, CPU",
        Figure::CutPolls => "cut polls/s",
        Figure::Grows => "grows/s",
        Figure::Shrinks => "shrinks/s",
        Figure::WakeLatencyMean => "wake-up, mean",
        Figure::WakeLatencyP50 => "wake-up, p50",
        Figure::WakeLatencyP99 => "wake-up, p99",
        Figure::GapP50 => "gap, p50",
        Figure::Exits => "/s",
        Figure::ExitTime => ", CPU",
        Figure::HandlingMean => ", mean",
        Figure::HandlingP99 => ", p99",
    };
    let whose = match &row.vm {
        _ if !several => String::new(),
        None => "host ".to_owned(),
        Some(vm) => format!("{} ", harmless(vm)),
    };
    let what = row.cause.as_ref().map(|cause| {
        // Returns to the VMM bear names of their own, KVM_EXIT_*.
        let name = harmless(&cause.name);
        match cause.kind {
            Kind::UserspaceExit if !name.starts_with("KVM_EXIT") => format!("VMM: {name}"),
            _ => name,
        }
    });
    format!("{whose}{}{figure}", what.unwrap_or_default())
}

/// A figure of one capture.
pub(crate) fn value(estimate: Option<EstimateView>, unit: Unit) -> String {
    estimate.map_or_else(|| "-".to_owned(), |it| amount(it.estimate, unit))
}

fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanos => nanos_f64(value),
        Unit::Percent => share(value / 100.0),
        _ => scaled(value),
    }
}

/// By how much more or less, or how many times as much.
pub(crate) fn change(row: &ComparisonView) -> String {
    match row.ratio {
        None if row.difference.is_some_and(|it| it.value != 0.0) => "from 0".to_owned(),
        None => "-".to_owned(),
        Some(0.0) => "to 0".to_owned(),
        Some(ratio) if ratio >= 3.0 => format!("x {}", scaled(ratio)),
        Some(ratio) => {
            let percent = 100.0 * (ratio - 1.0);
            if percent.abs() < 0.005 {
                "0 %".to_owned()
            } else {
                format!("{}{} %", sign(percent), three_digits(percent.abs()))
            }
        }
    }
}

fn sign(value: f64) -> &'static str {
    if value < 0.0 { "-" } else { "+" }
}

/// Both ends of the interval, in one unit.
pub(crate) fn interval(row: &ComparisonView) -> String {
    let Some(it) = row.difference.filter(Interval::is_known) else {
        return "-".to_owned();
    };
    let largest = it.low.abs().max(it.high.abs());
    let (per_unit, unit) = match (row.unit, largest) {
        (Unit::Nanos, v) if v >= 999.5e6 => (1e9, " s"),
        (Unit::Nanos, v) if v >= 999.5e3 => (1e6, " ms"),
        (Unit::Nanos, v) if v >= 999.5 => (1e3, " us"),
        (Unit::Nanos, _) => (1.0, " ns"),
        (Unit::Percent, _) => (1.0, " %"),
        (_, v) if v >= 999_500.0 => (1e6, " M"),
        (_, v) if v >= 999.5 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let end = |value: f64| {
        let value = value / per_unit;
        format!("{}{}", sign(value), three_digits(value.abs()))
    };
    format!("{} to {}{unit}", end(it.low), end(it.high))
}

fn closing(page: &mut Page, view: &View, options: Options) {
    page.gap();
    for (which, capture) in [("A", &view.a), ("B", &view.b)] {
        let mut notes = Vec::new();
        if capture.lost > 0 {
            notes.push(format!("{} events were lost", count(capture.lost)));
        }
        if capture.cut {
            let text = "the recording was not finished; everything written is included";
            notes.push(text.to_owned());
        }
        notes.extend(capture.notes.iter().cloned());
        for note in notes {
            page.wrapped(&format!("note: {which}: "), &harmless(&note), 9);
        }
    }
    let short = view.comparisons.iter();
    let short = short.filter(|row| row.verdict == Verdict::TooShort).count();
    if short > 0 && !options.all {
        let figures = plural(short as u64, "figure");
        let text = format!("The captures are too short to compare {figures} (see --all).");
        page.wrapped("", &text, 0);
    }
    let blocks = [view.a.block_ns, view.b.block_ns].into_iter();
    let mut blocks: Vec<String> = blocks.filter(|ns| *ns > 0).map(nanos).collect();
    blocks.dedup();
    if blocks.is_empty() {
        return;
    }
    let blocks = blocks.join(" and ");
    let text = format!(
        "Confidence intervals are from time slices of {blocks}. If nothing differed, 95 of 100 such \
         comparisons would list no figure (Holm's correction). The captures are from different times, \
         so any other change on the host is included. `haltwise prove` measures two settings alternately."
    );
    page.wrapped("", &text, 0);
}
