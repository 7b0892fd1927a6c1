//! What experiments found, for people: as text of 80 columns, as Markdown, as a page of HTML.
//!
//! The three say the same; what they share is here.

mod html;
mod markdown;
mod text;

use std::fmt::Write as _;

use haltwise_core::stats::Estimate;
use haltwise_core::units::Nanos;

use crate::experiment::found::{Found, FoundEffect, FoundVariant, Report};
use crate::experiment::judge::SameDirection;
use crate::experiment::witness::Witness;
use crate::experiment::{Better, Table};

pub use html::html;
pub use markdown::markdown;
pub use text::text;

/// Heads of the table of effects.
const EFFECT_COLUMNS: [&str; 4] = ["source's effect", "reported", "measured here", "same"];

/// A number of three digits or so.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.0005 => 3,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// A median with its interval.
fn estimate(estimate: &Estimate) -> String {
    let Estimate {
        median, low, high, ..
    } = *estimate;
    if (high - low).abs() <= f64::EPSILON * median.abs() {
        return number(median);
    }
    format!("{} ({}..{})", number(median), number(low), number(high))
}

/// A figure's name with its unit.
fn head(name: &str, unit: &str) -> String {
    if unit.is_empty() {
        name.to_owned()
    } else {
        format!("{name}, {unit}")
    }
}

/// A measured effect: both medians, and the difference with its interval.
fn measured(found: &Found, effect: &FoundEffect) -> String {
    let (Some(from), Some(to)) = (effect.from_median, effect.to_median) else {
        return "could not be measured".to_owned();
    };
    let figure = found
        .figures
        .iter()
        .find(|figure| figure.name == effect.figure);
    let unit = figure
        .map(|figure| figure.unit.as_str())
        .filter(|unit| !unit.is_empty());
    let unit = unit.map(|unit| format!(" {unit}")).unwrap_or_default();
    let mut text = format!("{} -> {}{unit}", number(from), number(to));
    let Some(difference) = &effect.difference else {
        return text;
    };
    let ends = [difference.estimate, difference.low, difference.high];
    let shares = ends.map(|end| effect.share(end));
    if let [Some(share), Some(low), Some(high)] = shares {
        let percent = |share: f64| {
            let share = 100.0 * share;
            if share.abs() < 9.95 {
                format!("{share:+.1}")
            } else {
                format!("{share:+.0}")
            }
        };
        let (share, low, high) = (percent(share), percent(low), percent(high));
        let _ = write!(text, ": {share} % ({low} to {high})");
    } else {
        let [estimate, low, high] = ends.map(number);
        let _ = write!(text, ": {estimate} more ({low} to {high})");
    }
    text
}

/// The cells of an effect's row.
fn effect_row(found: &Found, effect: &FoundEffect) -> Vec<String> {
    vec![
        format!("{}: {}", effect.group, effect.what),
        effect.reported.clone(),
        measured(found, effect),
        effect.same_direction.as_str().to_owned(),
    ]
}

/// All effects of a report in one table, the experiment's name before each.
fn summary(report: &Report) -> Table {
    let of_one = |found: &Found| -> Vec<Vec<String>> {
        if let Some(failure) = failure(found) {
            let not_shown = SameDirection::NotShown.as_str();
            return vec![vec![
                found.name.clone(),
                String::new(),
                failure,
                not_shown.to_owned(),
            ]];
        }
        let row = |effect: &FoundEffect| {
            let mut row = effect_row(found, effect);
            row[0] = format!("{}, {}", found.name, row[0]);
            row
        };
        found.effects.iter().map(row).collect()
    };
    let rows = report.experiments.iter().flat_map(of_one);
    Table {
        title: "Every effect".to_owned(),
        columns: EFFECT_COLUMNS.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

/// The effects of one experiment.
fn effects(found: &Found) -> Table {
    let rows = found.effects.iter().map(|effect| effect_row(found, effect));
    Table {
        title: "The source's effects".to_owned(),
        columns: EFFECT_COLUMNS.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

/// What was measured: a table for each group of variants, a column for each figure.
fn groups(found: &Found) -> Vec<Table> {
    let mut names: Vec<&str> = Vec::new();
    for variant in &found.variants {
        if !names.contains(&variant.group.as_str()) {
            names.push(&variant.group);
        }
    }
    let figures = found
        .figures
        .iter()
        .map(|figure| head(&figure.name, &figure.unit));
    let columns: Vec<String> = std::iter::once(String::new()).chain(figures).collect();
    let row = |variant: &FoundVariant| {
        let figures = variant.figures.iter();
        let cells = figures.map(|figure| figure.as_ref().map_or("-".to_owned(), estimate));
        std::iter::once(variant.name.clone()).chain(cells).collect()
    };
    let table = |group: &str| Table {
        title: group.to_owned(),
        columns: columns.clone(),
        rows: found
            .variants
            .iter()
            .filter(|variant| variant.group == group)
            .map(row)
            .collect(),
    };
    names.into_iter().map(table).collect()
}

/// What the figures are, a line each.
fn legend(found: &Found) -> Vec<String> {
    let line = |figure: &crate::experiment::found::FoundFigure| {
        let better = match figure.better {
            Better::Less => " (less is better)",
            Better::More => " (more is better)",
            Better::Neither => "",
        };
        format!(
            "{}: {}{better}",
            head(&figure.name, &figure.unit),
            figure.what
        )
    };
    found.figures.iter().map(line).collect()
}

/// That it failed and why, if it did.
fn failure(found: &Found) -> Option<String> {
    let why = found.failed.as_ref()?;
    Some(format!("could not be done: {why}"))
}

/// How it was measured.
fn how(report: &Report, found: &Found) -> String {
    format!(
        "{} rounds of {} variants, {} each, in an order drawn from seed {}; medians with 95 % intervals",
        found.rounds,
        found.variants.len(),
        Nanos(found.block_ns),
        report.seed
    )
}

/// What the witness says, in a line or more.
fn witness(witness: &Witness) -> Vec<String> {
    let (checks, vcpus, lost, missing) = match witness {
        Witness::No { reason } => {
            return vec![format!("not recorded by haltwise: {reason}")];
        }
        Witness::Yes {
            checks,
            vcpus,
            lost,
            missing,
        } => (checks, vcpus, lost, missing),
    };
    let verdict = match witness.agrees() {
        Some(true) => "haltwise recorded the same",
        _ => "haltwise did not record the same",
    };
    let mut lines = vec![format!(
        "{verdict}: {vcpus} vCPUs ran, {lost} events were lost"
    )];
    for check in checks {
        let (low, high) = check.lab;
        let lab = if low == high {
            low.to_string()
        } else {
            format!("{low} to {high}")
        };
        let same = if check.agrees { "" } else { " (differs)" };
        lines.push(format!(
            "{}: {lab} here, {} recorded{same}",
            check.what, check.haltwise
        ));
    }
    lines.extend(
        missing
            .iter()
            .map(|missing| format!("not recorded: {missing}")),
    );
    lines
}

#[cfg(test)]
mod test;
