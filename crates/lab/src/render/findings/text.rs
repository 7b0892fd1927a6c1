//! Findings as text of 80 columns.

use std::fmt::Write as _;

use super::{counts, failure, groups, how, legend, limits, number, verdicts, witness};
use crate::experiment::found::{Found, Report};
use crate::experiment::{Chart, Table};

const WIDTH: usize = 80;
const BAR: usize = 40;
const GAP: usize = 2;

/// One experiment in full, or several with a table of all effects at the end.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    for found in &report.experiments {
        text.push_str(&one(report, found));
        text.push('\n');
    }
    if report.experiments.len() > 1 {
        for table in verdicts(&report.experiments, true) {
            text.push_str(&wrapped_table(&table));
            text.push('\n');
        }
        for line in counts(report) {
            text.push_str(&wrap(&line, 0));
        }
    }
    text
}

fn one(report: &Report, found: &Found) -> String {
    let mut text = String::new();
    let mut say = |indent: usize, line: &str| text.push_str(&wrap(line, indent));
    say(0, &format!("{}: {}", found.name, found.title));
    say(0, &format!("source: {}", found.source.document));
    for report in &found.source.reports {
        say(2, report);
    }
    if let Some(failure) = failure(found) {
        say(0, &failure);
        return text;
    }
    say(0, &how(report, found));
    text.push('\n');
    for table in verdicts(std::slice::from_ref(found), false) {
        text.push_str(&wrapped_table(&table));
        text.push('\n');
    }
    for line in limits(found) {
        text.push_str(&wrap(&line, 0));
    }
    text.push('\n');
    for table in groups(found) {
        text.push_str(&split_table(&table));
    }
    for line in legend(found) {
        text.push_str(&wrap(&line, 2));
    }
    for table in &found.tables {
        text.push('\n');
        text.push_str(&wrap(&table.title, 0));
        text.push_str(&split_table(&Table {
            title: String::new(),
            ..table.clone()
        }));
    }
    for chart in &found.charts {
        text.push('\n');
        text.push_str(&bars(chart));
    }
    for note in &found.notes {
        text.push_str(&wrap(&format!("note: {note}"), 0));
    }
    text.push('\n');
    for (index, line) in witness(&found.witness).iter().enumerate() {
        text.push_str(&wrap(line, if index == 0 { 0 } else { 2 }));
    }
    text
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// Words in lines of at most `width`.
fn fold(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last().map_or(0, |line| chars(line));
        if last > 0 && last + 1 + chars(word) > width {
            lines.push(word.to_owned());
            continue;
        }
        if let Some(line) = lines.last_mut() {
            if last > 0 {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

fn wrap(text: &str, indent: usize) -> String {
    let lines = fold(text, WIDTH - indent - 2);
    let lines = lines.iter().enumerate().map(|(index, line)| {
        let more = if index > 0 { 2 } else { 0 };
        format!("{:pad$}{line}\n", "", pad = indent + more)
    });
    lines.collect()
}

fn wrapped_table(table: &Table) -> String {
    // The tables of verdicts: what, reported, measured, same.
    const WIDTHS: [usize; 4] = [27, 15, 23, 9];
    let mut text = String::new();
    for row in std::iter::once(&table.columns).chain(&table.rows) {
        let cells: Vec<Vec<String>> = row
            .iter()
            .zip(WIDTHS)
            .map(|(cell, width)| fold(cell, width))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let mut out = String::new();
            for (cell, width) in cells.iter().zip(WIDTHS) {
                let part = cell.get(line).map_or("", String::as_str);
                let _ = write!(out, "{part:<width$}{:GAP$}", "");
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
    }
    text
}

/// A table whose columns go on below where the line is full; the first column stands in each part.
fn split_table(table: &Table) -> String {
    let width_of = |column: usize| {
        let cells = table
            .rows
            .iter()
            .map(|row| row.get(column).map_or(0, |cell| chars(cell)));
        cells.max().unwrap_or(0).max(chars(&table.columns[column]))
    };
    let first = width_of(0).max(chars(&table.title));
    let mut text = String::new();
    let mut from = 1;
    while from < table.columns.len() {
        let mut to = from;
        let mut width = first;
        while to < table.columns.len() && (to == from || width + GAP + width_of(to) <= WIDTH) {
            width += GAP + width_of(to);
            to += 1;
        }
        for (index, row) in std::iter::once(&table.columns)
            .chain(&table.rows)
            .enumerate()
        {
            let name = if index == 0 { &table.title } else { &row[0] };
            let mut line = format!("{name:<first$}");
            if index == 0 && name.is_empty() {
                line = format!("{:<first$}", row[0]);
            }
            for (column, cell) in row.iter().enumerate().take(to).skip(from) {
                let _ = write!(line, "{:GAP$}{cell:>width$}", "", width = width_of(column));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push('\n');
        from = to;
    }
    text
}

fn bars(chart: &Chart) -> String {
    let mut text = wrap(&chart.title, 0);
    let most = chart
        .series
        .iter()
        .flat_map(|(_, values)| values)
        .copied()
        .fold(0.0, f64::max);
    let label = chart
        .labels
        .iter()
        .map(|label| chars(label))
        .max()
        .unwrap_or(0);
    for (name, values) in &chart.series {
        text.push_str(&wrap(&format!("{name}, by {}", chart.labels_are), 2));
        for (at, value) in chart.labels.iter().zip(values) {
            let bar = "#".repeat(columns(*value, most));
            let line = format!("  {at:>label$}  {:>8}  {bar}", number(*value));
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

/// How many of [`BAR`] columns a value takes; what is not nothing takes at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of BAR, clamped to it"
)]
fn columns(value: f64, most: f64) -> usize {
    if value <= 0.0 || most <= 0.0 {
        return 0;
    }
    ((value / most * BAR as f64).round() as usize).clamp(1, BAR)
}
