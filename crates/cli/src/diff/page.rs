//! Comparison of two captures, on a screen and on the page of `report --html`: what differs around the
//! figures, then the figures that differ, largest first.

use haltwise_core::diff::figure::{Figure, Unit};
use haltwise_core::diff::judge::Verdict;
use haltwise_core::exit::Kind;
use haltwise_core::stats::Interval;
use haltwise_document::{Document, Prose, Rows, Table, Unit as Is, Untrusted, prose};
use serde_json::{Value, json};

use super::view::{ComparedCapture, ComparedFigure, Differences, Estimated};
use crate::figures::PolledBar;
use crate::number::{nanos, nanos_f64, scaled, share, three_digits};
use crate::proof::figure::scale;
use crate::words::{of_recording, plural, some};

const NAMES: usize = 6;

/// Lays it out, with so many rows of each table; `all` shows also what may be chance.
pub(crate) fn document(view: &Differences, top: usize, all: bool) -> Document {
    let mut document = Document::new();
    capture(&mut document, "A", &view.a);
    capture(&mut document, "B", &view.b);
    if let Some(vm) = whose(view) {
        document.prose(prose!["All figures are for VM ", Untrusted::from(vm), "."]);
    }
    document.heading("Differences in setup");
    circumstances(&mut document, view);
    let rows = |verdict: Verdict| -> Vec<&ComparedFigure> {
        let rows = view.comparisons.iter();
        rows.filter(|row| row.verdict == verdict).collect()
    };
    let different = rows(Verdict::Different);
    document.heading(format!(
        "{} of {} figures differ, the largest difference first",
        view.different, view.compared
    ));
    if different.is_empty() {
        document.prose(nothing(view, all));
    } else {
        document.table(table(view, "Figures that differ", &different, top));
    }
    for (verdict, title) in [
        (Verdict::MayBeChance, "Not significant"),
        (Verdict::TooShort, "Too short to compare"),
        (Verdict::NotTold, "Not in both captures"),
    ] {
        let rows = rows(verdict);
        if all && !rows.is_empty() {
            let mut folded = Document::new();
            folded.table(table(view, title, &rows, top));
            document.folded(title, folded);
        }
    }
    PolledBar::show(&mut document, &view.polled);
    notes(&mut document, view, all);
    document
}

fn capture(document: &mut Document, which: &'static str, view: &ComparedCapture) {
    let text = format!(
        ", {} of {} in {}{}",
        plural(view.halts, "halt"),
        plural(view.vms as u64, "VM"),
        nanos(view.duration_ns),
        match &view.started_utc {
            Some(utc) => format!(", from {utc}"),
            None => String::new(),
        },
    );
    let text = prose![
        Untrusted::from(&view.path),
        ": ",
        Untrusted::from(&view.host),
        ", Linux ",
        Untrusted::from(&view.kernel),
        text
    ];
    document.fact(which, text);
}

fn circumstances(document: &mut Document, view: &Differences) {
    if view.circumstances.is_empty() {
        document.prose("None: same host, kernel, source, mode and settings.");
    }
    for it in &view.circumstances {
        let (a, b) = (Untrusted::from(&it.a), Untrusted::from(&it.b));
        document.fact(Untrusted::from(&it.what), prose!["A ", a, "; B ", b]);
    }
    for (which, names) in [("only in A", &view.only_a), ("only in B", &view.only_b)] {
        if !names.is_empty() {
            document.fact(which, Untrusted::from(some(names, NAMES)));
        }
    }
    if !view.only_a.is_empty() && !view.only_b.is_empty() {
        document.prose("`haltwise diff --vm NAME=NAME` compares VMs of different names.");
    }
}

/// Whether figures are of several VMs, or of VMs and the host: else a row need not say whose it is.
fn is_of_several(view: &Differences) -> bool {
    let mut whose = view.comparisons.iter().map(|row| &row.vm);
    let first = whose.next();
    whose.any(|vm| Some(vm) != first)
}

/// The VM that all figures are of; `None` where its names in A and B differ, which is said as a circumstance.
fn whose(view: &Differences) -> Option<&str> {
    let first = view.comparisons.first().filter(|_| !is_of_several(view))?;
    first.vm.as_deref().filter(|_| first.vm == first.vm_b)
}

fn nothing(view: &Differences, all: bool) -> String {
    let (text, more) = if view.compared == 0 {
        let text = "Too short, or not recorded: no figure has enough time slices with halts or exits in both \
                    captures.";
        (text, " --rows all shows what was recorded.")
    } else {
        let more = " --rows all prints every figure with its confidence interval.";
        ("No significant differences.", more)
    };
    format!("{text}{}", if all { "" } else { more })
}

fn table(view: &Differences, caption: &'static str, rows: &[&ComparedFigure], top: usize) -> Table {
    let mut table = Rows::new(caption, rows, top);
    if is_of_several(view) {
        table = table.with("VM", Is::Name, |row| row.vm.as_deref().unwrap_or("(host)"));
    }
    table = table
        .with("figure", Is::Name, |row| name(row))
        .with("A", Is::Shown, |row| value(row.a, row.unit))
        .with("B", Is::Shown, |row| value(row.b, row.unit));
    if rows.iter().any(|row| row.p.is_some()) {
        table = table
            .with("change", Is::Shown, |row| change(row))
            .with("B - A, 95 % CI", Is::Shown, |row| interval(row))
            .with("about zero", Is::Drawn, |row| drawn(row));
    }
    table.finish()
}

fn name(row: &ComparedFigure) -> String {
    let figure = match row.figure {
        Figure::Halts => "halts/s",
        Figure::Blocks => "sleeps/s",
        Figure::SuccessfulPolls => "successful polls",
        Figure::PollUsefulCpu => "successful polls, CPU",
        Figure::PollWastedCpu => "failed polls, CPU",
        Figure::CutPolls => "cut polls/s",
        Figure::Grows => "grows/s",
        Figure::Shrinks => "shrinks/s",
        Figure::LatencyMean => "wake-up, all halts",
        Figure::WakeLatencyMean => "sleep wake-up, mean",
        Figure::WakeLatencyP50 => "sleep wake-up, p50",
        Figure::WakeLatencyP99 => "sleep wake-up, p99",
        Figure::GapP50 => "gap, p50",
        Figure::Exits => "/s",
        Figure::ExitTime => ", CPU",
        Figure::HandlingMean => ", mean",
        Figure::HandlingP99 => ", p99",
    };
    let what = row.cause.as_ref().map_or("", |cause| &cause.name);
    // Returns to the VMM bear names of their own, KVM_EXIT_*.
    let is_return = |it: &super::view::ExitCause| it.kind == Kind::UserspaceExit;
    let vmm = if row.cause.as_ref().is_some_and(is_return) && !what.starts_with("KVM_EXIT") {
        "VMM: "
    } else {
        ""
    };
    format!("{vmm}{what}{figure}")
}

fn value(estimate: Option<Estimated>, unit: Unit) -> Option<String> {
    estimate.map(|it| match unit {
        Unit::Nanos => nanos_f64(it.estimate),
        Unit::Percent => share(it.estimate / 100.0),
        _ => scaled(it.estimate),
    })
}

fn change(row: &ComparedFigure) -> Option<String> {
    Some(match row.ratio {
        None if row.difference.is_some_and(|it| it.value != 0.0) => "from 0".to_owned(),
        None => return None,
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
    })
}

fn sign(value: f64) -> &'static str {
    if value < 0.0 { "-" } else { "+" }
}

fn interval(row: &ComparedFigure) -> Option<String> {
    let it = row.difference.filter(Interval::is_known)?;
    let largest = it.low.abs().max(it.high.abs());
    let (per_unit, unit) = scale(row.unit, largest);
    let end = |value: f64| {
        let value = value / per_unit;
        format!("{}{}", sign(value), three_digits(value.abs()))
    };
    Some(format!("{} to {}{unit}", end(it.low), end(it.high)))
}

fn drawn(row: &ComparedFigure) -> Value {
    let it = row.difference.filter(Interval::is_known);
    it.map_or(Value::Null, |it| {
        let size = row.a.map_or(0.0, |a| a.estimate.abs());
        let reach = it.low.abs().max(it.high.abs()).max(size);
        json!([it.value, it.low, it.high, reach])
    })
}

fn notes(document: &mut Document, view: &Differences, all: bool) {
    for (which, capture) in [("A: ", &view.a), ("B: ", &view.b)] {
        let mut note = |text: Prose| {
            let mut note = Prose::from(which);
            note.extend(text);
            document.note(note);
        };
        of_recording(capture.lost, capture.cut).for_each(|text| note(text.into()));
        for text in &capture.notes {
            note(Untrusted::from(text).into());
        }
    }
    let short = view.comparisons.iter();
    let short = short.filter(|row| row.verdict == Verdict::TooShort).count();
    if short > 0 && !all {
        let figures = plural(short as u64, "figure");
        document.remark(format!(
            "The captures are too short to compare {figures} (see --rows all)."
        ));
    }
    let blocks = [view.a.block_ns, view.b.block_ns].into_iter();
    let mut blocks: Vec<String> = blocks.filter(|ns| *ns > 0).map(nanos).collect();
    blocks.dedup();
    if !blocks.is_empty() {
        document.remark(format!(
            "Confidence intervals are from time slices of {}. If nothing differed, 95 of 100 such \
             comparisons would list no figure (Holm's correction). The captures are from different times, \
             so any other change on the host is included. `haltwise prove` measures two settings alternately.",
            blocks.join(" and ")
        ));
    }
}
