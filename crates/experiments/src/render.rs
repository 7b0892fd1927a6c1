//! Results of experiments for people: rows and sentences are made here, and `markdown` lays them out.

mod list;
mod markdown;

use std::fmt::Write as _;

use haltwise_core::stats::ranks::RankInterval;
use haltwise_core::stats::{Estimate, FEWEST};
use haltwise_core::units::Nanos;

use crate::experiment::found::{Found, FoundEffect, FoundIntegrity, FoundVariant, Report, Tally};
use crate::experiment::judge::SameDirection;
use crate::experiment::witness::Witness;
use crate::experiment::{Better, Figure, Kind, Table};

pub use list::list;
pub use markdown::markdown;

/// Titles and heads of the tables of verdicts.
const CLAIMS: (&str, [&str; 4]) = (
    "Claims of the sources",
    ["source's effect", "reported", "measured here", "same"],
);
const CONSTRUCTIONS: (&str, [&str; 4]) = (
    "True by construction",
    ["construction", "reported", "measured here", "holds"],
);
const INTEGRITY: (&str, [&str; 4]) = (
    "Integrity checks",
    ["integrity check", "demanded", "found", "holds"],
);

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

fn estimate(estimate: &Estimate) -> String {
    let Estimate {
        median, low, high, ..
    } = *estimate;
    if (high - low).abs() <= f64::EPSILON * median.abs() {
        return number(median);
    }
    format!("{} ({}..{})", number(median), number(low), number(high))
}

fn head(name: &str, unit: &str) -> String {
    if unit.is_empty() {
        name.to_owned()
    } else {
        format!("{name}, {unit}")
    }
}

fn measured(found: &Found, effect: &FoundEffect) -> String {
    let (Some(from), Some(to)) = (effect.from_median, effect.to_median) else {
        return "could not be measured".to_owned();
    };
    let unit = unit(found, effect);
    let mut text = format!("{} -> {}{unit}", number(from), number(to));
    if let Some(ratio) = &effect.ratio {
        let percent = |ratio: f64| {
            let share = 100.0 * (ratio - 1.0);
            if share.abs() < 9.95 {
                format!("{share:+.1}")
            } else {
                format!("{share:+.0}")
            }
        };
        let [estimate, low, high] = [ratio.estimate, ratio.low, ratio.high].map(percent);
        let _ = write!(text, ": {estimate} % ({low} to {high})");
    } else if let Some(difference) = &effect.difference {
        let ends = [difference.estimate, difference.low, difference.high];
        let signed = |end: f64| match number(end) {
            text if end > 0.0 => format!("+{text}"),
            text => text,
        };
        let [estimate, low, high] = ends.map(signed);
        let _ = write!(text, ": {estimate}{unit} ({low} to {high})");
    }
    text
}

fn effect_row(found: &Found, effect: &FoundEffect) -> Vec<String> {
    vec![
        format!(
            "{}: {}",
            found.named(&effect.effect.group),
            effect.effect.what
        ),
        effect.effect.reported.clone(),
        measured(found, effect),
        verdict(found, effect),
    ]
}

/// The verdict on an effect; without one, the change that would have been seen: half the interval's width.
fn verdict(found: &Found, effect: &FoundEffect) -> String {
    let verdict = effect.same_direction.as_str();
    let is_open = effect.same_direction == SameDirection::NotShown;
    match (&effect.difference, &effect.ratio) {
        (Some(difference), _) if !is_open || difference.rounds < FEWEST => verdict.to_owned(),
        (_, Some(ratio)) => format!("{verdict}; {:.1} % would be", 50.0 * width(ratio)),
        (Some(difference), None) => {
            let half = number(0.5 * width(difference));
            format!("{verdict}; {half}{} would be", unit(found, effect))
        }
        (None, None) => verdict.to_owned(),
    }
}

fn width(interval: &RankInterval) -> f64 {
    interval.high - interval.low
}

/// The unit of an effect's figure, with a blank; empty for a plain number.
fn unit(found: &Found, effect: &FoundEffect) -> String {
    let mut figures = found.figures.iter();
    let figure = figures.find(|figure| figure.name == effect.effect.figure);
    let unit = figure.filter(|figure| !figure.unit.is_empty());
    unit.map_or(String::new(), |figure| format!(" {}", figure.unit))
}

fn integrity_row(check: &FoundIntegrity) -> Vec<String> {
    let what = if check.group.is_empty() {
        check.what.clone()
    } else {
        format!("{}: {}", check.group, check.what)
    };
    let found = match (check.checked, check.broken) {
        (0, _) => "could not be measured".to_owned(),
        (checked, 0) => format!("in all of {checked}"),
        (checked, broken) => format!("broken in {broken} of {checked}"),
    };
    let holds = check.holds.as_str().to_owned();
    vec![what, check.demanded.clone(), found, holds]
}

/// The host that all depends on.
fn host(report: &Report) -> String {
    let latency = report.host.wake_latency_ns;
    let latency = latency.map_or("unknown".to_owned(), |ns| Nanos(ns).to_string());
    format!("{} CPUs, wake-up latency {latency}", report.host.cpus)
}

/// How the source's times became those here.
fn scaled(report: &Report, found: &Found) -> Option<String> {
    let scaled = found.scaled.as_ref()?;
    let (factor, source) = (scaled.factor, Nanos(scaled.wake_latency_ns));
    let here = host(report);
    Some(format!(
        "The source's times are multiplied by {factor} (there: wake-up latency {source}; here: {here})."
    ))
}

fn titled((title, columns): (&str, [&str; 4]), rows: Vec<Vec<String>>) -> Table {
    Table {
        title: title.to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }
}

/// Claims, constructions and integrity checks of some experiments, a table for each kind that there is.
fn verdicts(report: &Report) -> Vec<Table> {
    let name = |found: &Found, mut row: Vec<String>| {
        row[0] = format!("{}, {}", found.name, row[0]);
        row
    };
    let of_kind = |found: &Found, kind: Kind| -> Vec<Vec<String>> {
        let effects = found.effects.iter();
        let effects = effects.filter(|effect| effect.effect.kind == kind);
        let rows = effects.map(|effect| name(found, effect_row(found, effect)));
        rows.collect()
    };
    let claims = |found: &Found| match failure(found) {
        Some(failure) => {
            let not_shown = SameDirection::NotShown.as_str().to_owned();
            vec![vec![found.name.clone(), String::new(), failure, not_shown]]
        }
        None => of_kind(found, Kind::Claim),
    };
    let experiments = &report.experiments;
    let done = || experiments.iter().filter(|found| found.failed.is_none());
    let checks = |found: &Found| -> Vec<Vec<String>> {
        let rows = found.integrity.iter().map(integrity_row);
        rows.map(|row| name(found, row)).collect()
    };
    let constructions = done().flat_map(|found| of_kind(found, Kind::Construction));
    let mut tables = [
        titled(CLAIMS, experiments.iter().flat_map(claims).collect()),
        titled(CONSTRUCTIONS, constructions.collect()),
        titled(INTEGRITY, done().flat_map(checks).collect()),
    ];
    for table in &mut tables[..2] {
        table.columns[2] = format!("measured here ({})", host(report));
    }
    let tables = tables.into_iter().filter(|table| !table.rows.is_empty());
    tables.collect()
}

/// How many verdicts were which, a line for each kind.
pub fn counts(report: &Report) -> [String; 3] {
    let line = |kind: &str, tally: Tally, words: [&str; 3]| {
        let Tally { yes, no, not_shown } = tally;
        let mut line = format!("{kind}: {yes} of {} {}", tally.all(), words[0]);
        for (count, words) in [(not_shown, words[1]), (no, words[2])] {
            if count > 0 {
                let _ = write!(line, ", {count} {words}");
            }
        }
        line
    };
    let holds = ["hold", "could not be measured", "do not"];
    [
        line(
            "claims",
            report.effects(Kind::Claim),
            [
                "have the source's direction",
                "are not shown",
                "have the other direction",
            ],
        ),
        line("constructions", report.effects(Kind::Construction), holds),
        line("integrity checks", report.integrity(), holds),
    ]
}

/// Measured values: a table for each group of variants, a column for each figure.
fn groups(found: &Found) -> Vec<Table> {
    let mut names: Vec<&str> = Vec::new();
    for variant in &found.variants {
        if !names.contains(&variant.variant.group.as_str()) {
            names.push(&variant.variant.group);
        }
    }
    let figures = found.figures.iter();
    let figures = figures.map(|figure| head(&figure.name, &figure.unit));
    let columns: Vec<String> = std::iter::once(String::new()).chain(figures).collect();
    let row = |variant: &FoundVariant| {
        let figures = variant.figures.iter();
        let cells = figures.map(|figure| figure.as_ref().map_or("-".to_owned(), estimate));
        std::iter::once(found.named(&variant.variant.name))
            .chain(cells)
            .collect()
    };
    let table = |group: &str| Table {
        title: found.named(group),
        columns: columns.clone(),
        rows: found
            .variants
            .iter()
            .filter(|variant| variant.variant.group == group)
            .map(row)
            .collect(),
    };
    names.into_iter().map(table).collect()
}

/// Why sizes differ, and where load or variants are not the source's; a line each.
fn limits(found: &Found) -> Vec<String> {
    let differs = format!("why they differ: {}", found.differs);
    let limits = found.limits.iter().map(|limit| format!("limit: {limit}"));
    std::iter::once(differs).chain(limits).collect()
}

fn legend(found: &Found) -> Vec<String> {
    let line = |figure: &Figure| {
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

fn failure(found: &Found) -> Option<String> {
    let why = found.failed.as_ref()?;
    Some(format!("could not be done: {why}"))
}

fn how(report: &Report, found: &Found) -> String {
    format!(
        "{} rounds of {} variants, {} each, in an order drawn from seed {}; medians with 95 % intervals",
        found.rounds,
        found.variants.len(),
        Nanos(found.block_ns),
        report.seed
    )
}

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
