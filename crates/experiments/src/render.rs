//! Findings as Markdown, of which `docs/experiments.md` is made, and the list of experiments.

use std::fmt::{Display, Write as _};

use haltwise_core::stats::ranks::RankInterval;
use haltwise_core::stats::{Estimate, FEWEST};
use haltwise_core::units::Nanos;

use crate::experiment::found::{Found, FoundEffect, FoundIntegrity, FoundVariant, Report, Tally};
use crate::experiment::judge::SameDirection;
use crate::experiment::registry::{self, EXPERIMENTS};
use crate::experiment::witness::Witness;
use crate::experiment::{Better, Chart, Figure, Kind};

const HEAD: &str = "# The sources' experiments, reproduced\n\n\
    Each experiment reproduces in the lab what a document reports of a real system: *reported*\n\
    beside *measured here*. The direction should hold; the size depends on the machine. *Same* says\n\
    whether the interval of the change lies where the source leads to: *yes*, *no* or *not shown*, with\n\
    the change that would have been seen (half the interval). Rounds go on until all is decided, looked\n\
    at after 8, 16, 32 ... rounds, or until the experiment's time is used up.\n\n\
    Three kinds of statements are counted apart. A *claim* has its direction from the source, and may\n\
    fail; \"little or no loss\" is met by a gain. A *construction* follows from how the variants are made:\n\
    it shows that they are what they are said to be, and nothing about the source. An *integrity check*\n\
    demands a value of every block, or that haltwise counted what the lab counted.\n\n\
    Changes in % are of the ratio within each round; where a figure is 0 in some round, the\n\
    difference is given. [Stock Linux guests](rig.md) show the same effects by counts.\n\
    This page is generated from a kept run, judged by the rules of this version; do not edit it.\n\n";

/// A line for each experiment; with its source and variants if `verbose`.
pub fn list(verbose: bool) -> String {
    let mut text = String::new();
    for experiment in EXPERIMENTS {
        let _ = writeln!(text, "{:<22}{}", experiment.name, experiment.title);
        if !verbose {
            continue;
        }
        let _ = writeln!(text, "    source: {}", experiment.source.document);
        for report in experiment.source.reports {
            let _ = writeln!(text, "      {report}");
        }
        for variant in (experiment.variants)() {
            let _ = writeln!(
                text,
                "    {}, {}: {}",
                variant.group, variant.name, variant.what
            );
        }
        text.push('\n');
    }
    text
}

pub fn markdown(report: &Report) -> String {
    let mut text = HEAD.to_owned();
    let _ = write!(
        text,
        "Run by {} on Linux {}, {}, seed {}.\n\n",
        report.program,
        report.host.kernel,
        host(report),
        report.seed
    );
    text.push_str(&items(counts(report)));
    text.push_str(&verdicts(report));
    for found in &report.experiments {
        text.push_str(&one(report, found));
    }
    text
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
    let direction = [
        "have the source's direction",
        "are not shown",
        "have the other direction",
    ];
    let holds = ["hold", "could not be measured", "do not"];
    [
        line("claims", report.effects(Kind::Claim), direction),
        line("constructions", report.effects(Kind::Construction), holds),
        line("integrity checks", report.integrity(), holds),
    ]
}

/// Claims, constructions and integrity checks of all experiments, a table for each kind that there is.
fn verdicts(report: &Report) -> String {
    let done = || {
        let experiments = report.experiments.iter();
        experiments.filter(|found| found.failed.is_none())
    };
    let of_kind = |found: &Found, kind: Kind| -> Vec<Vec<String>> {
        let effects = found.effects.iter();
        let effects = effects.filter(|effect| effect.effect.kind == kind);
        effects.map(|effect| effect_row(found, effect)).collect()
    };
    let claims = report
        .experiments
        .iter()
        .flat_map(|found| match failure(found) {
            Some(failure) => {
                let not_shown = SameDirection::NotShown.as_str().to_owned();
                vec![vec![found.name.clone(), String::new(), failure, not_shown]]
            }
            None => of_kind(found, Kind::Claim),
        });
    let constructions = done().flat_map(|found| of_kind(found, Kind::Construction));
    let checks = done().flat_map(|found| {
        let checks = found.integrity.iter();
        checks.map(|check| integrity_row(found, check))
    });
    let measured = format!("measured here ({})", host(report));
    let section = |title: &str, columns: [&str; 4], rows: Vec<Vec<String>>| {
        if rows.is_empty() {
            return String::new();
        }
        format!("\n## {title}\n\n{}", table(&columns, &rows))
    };
    let effect = ["source's effect", "reported", &measured, "same"];
    let construction = ["construction", "reported", &measured, "holds"];
    let check = ["integrity check", "demanded", "found", "holds"];
    [
        section("Claims of the sources", effect, claims.collect()),
        section(
            "True by construction",
            construction,
            constructions.collect(),
        ),
        section("Integrity checks", check, checks.collect()),
    ]
    .concat()
}

fn effect_row(found: &Found, effect: &FoundEffect) -> Vec<String> {
    let group = found.named(&effect.effect.group);
    vec![
        format!("{}, {group}: {}", found.name, effect.effect.what),
        effect.effect.reported.clone(),
        measured(found, effect),
        verdict(found, effect),
    ]
}

fn integrity_row(of: &Found, check: &FoundIntegrity) -> Vec<String> {
    let group = match check.group.as_str() {
        "" => String::new(),
        group => format!("{group}: "),
    };
    let found = match (check.checked, check.broken) {
        (0, _) => "could not be measured".to_owned(),
        (checked, 0) => format!("in all of {checked}"),
        (checked, broken) => format!("broken in {broken} of {checked}"),
    };
    vec![
        format!("{}, {group}{}", of.name, check.what),
        check.demanded.clone(),
        found,
        check.holds.as_str().to_owned(),
    ]
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
            let digits = usize::from(share.abs() < 9.95);
            format!("{share:+.digits$}")
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

/// The verdict on an effect; without one, the change that would have been seen: half the interval's width.
fn verdict(found: &Found, effect: &FoundEffect) -> String {
    let verdict = effect.same_direction.as_str();
    let is_open = effect.same_direction == SameDirection::NotShown;
    let half = |interval: &RankInterval| 0.5 * (interval.high - interval.low);
    match (&effect.difference, &effect.ratio) {
        (Some(difference), _) if !is_open || difference.rounds < FEWEST => verdict.to_owned(),
        (_, Some(ratio)) => format!("{verdict}; {:.1} % would be", 100.0 * half(ratio)),
        (Some(difference), None) => {
            let half = number(half(difference));
            format!("{verdict}; {half}{} would be", unit(found, effect))
        }
        (None, None) => verdict.to_owned(),
    }
}

/// The unit of an effect's figure, with a blank; empty for a plain number.
fn unit(found: &Found, effect: &FoundEffect) -> String {
    let mut figures = found.figures.iter();
    let figure = figures.find(|figure| figure.name == effect.effect.figure);
    let unit = figure.filter(|figure| !figure.unit.is_empty());
    unit.map_or(String::new(), |figure| format!(" {}", figure.unit))
}

fn one(report: &Report, found: &Found) -> String {
    let mut text = format!("\n## {}: {}\n\n", found.name, found.title);
    let _ = write!(text, "Source: {}. It reports:\n\n", found.source.document);
    text.push_str(&items(&found.source.reports));
    if let Some(scaled) = &found.scaled {
        let source = Nanos(scaled.wake_latency_ns);
        let _ = write!(
            text,
            "\nThe source's times are multiplied by {} (there: wake-up latency {source}; here: {}).\n",
            scaled.factor,
            host(report)
        );
    }
    if let Some(experiment) = registry::find(&found.name) {
        let _ = write!(text, "\nOn your host: {}.\n", experiment.on_your_host);
    }
    if let Some(failure) = failure(found) {
        let _ = writeln!(text, "\nIt {failure}.");
        return text;
    }
    let _ = write!(
        text,
        "\nMeasured in {} rounds of {} variants, {} each, in an order drawn from seed {}; \
         medians with 95 % intervals.\n\n",
        found.rounds,
        found.variants.len(),
        Nanos(found.block_ns),
        report.seed
    );
    let _ = writeln!(text, "* why they differ: {}", found.differs);
    let limits = found.limits.iter();
    text.push_str(&items(limits.map(|limit| format!("limit: {limit}"))));
    text.push_str(&groups(found));
    text.push('\n');
    text.push_str(&items(found.figures.iter().map(meaning)));
    for own in &found.tables {
        let _ = write!(
            text,
            "\n{}:\n\n{}",
            own.title,
            table(&own.columns, &own.rows)
        );
    }
    for own in &found.charts {
        let _ = write!(text, "\n{}:\n\n{}", own.title, chart(own));
    }
    text.push('\n');
    text.push_str(&items(&found.notes));
    if !found.notes.is_empty() {
        text.push('\n');
    }
    text.push_str(&items(witness(&found.witness)));
    text
}

/// Measured values: a table for each group of variants, a column for each figure.
fn groups(found: &Found) -> String {
    let figures = found.figures.iter().map(head);
    let columns: Vec<String> = std::iter::once(String::new()).chain(figures).collect();
    let row = |variant: &FoundVariant| {
        let figures = variant.figures.iter();
        let cells = figures.map(|figure| figure.as_ref().map_or("-".to_owned(), estimate));
        std::iter::once(found.named(&variant.variant.name))
            .chain(cells)
            .collect()
    };
    let mut text = String::new();
    let by_group =
        |one: &FoundVariant, other: &FoundVariant| one.variant.group == other.variant.group;
    for variants in found.variants.chunk_by(by_group) {
        let group = found.named(&variants[0].variant.group);
        let rows: Vec<Vec<String>> = variants.iter().map(row).collect();
        let _ = write!(
            text,
            "\n### {}, {group}\n\n{}",
            found.name,
            table(&columns, &rows)
        );
    }
    text
}

fn meaning(figure: &Figure) -> String {
    let better = match figure.better {
        Better::Less => " (less is better)",
        Better::More => " (more is better)",
        Better::Neither => "",
    };
    format!("{}: {}{better}", head(figure), figure.what)
}

fn head(figure: &Figure) -> String {
    match &*figure.unit {
        "" => figure.name.to_string(),
        unit => format!("{}, {unit}", figure.name),
    }
}

fn failure(found: &Found) -> Option<String> {
    let why = found.failed.as_ref()?;
    Some(format!("could not be done: {why}"))
}

fn host(report: &Report) -> String {
    let latency = report.host.wake_latency_ns;
    let latency = latency.map_or("unknown".to_owned(), |ns| Nanos(ns).to_string());
    format!("{} CPUs, wake-up latency {latency}", report.host.cpus)
}

fn witness(witness: &Witness) -> Vec<String> {
    let (checks, vcpus, lost, missing) = match witness {
        Witness::No { reason } => return vec![format!("not recorded by haltwise: {reason}")],
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
        let lab = match check.lab {
            (low, high) if low == high => low.to_string(),
            (low, high) => format!("{low} to {high}"),
        };
        let same = if check.agrees { "" } else { " (differs)" };
        lines.push(format!(
            "{}: {lab} here, {} recorded{same}",
            check.what, check.haltwise
        ));
    }
    let missing = missing.iter();
    lines.extend(missing.map(|missing| format!("not recorded: {missing}")));
    lines
}

fn number(value: f64) -> String {
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

fn items(lines: impl IntoIterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "* {line}");
    }
    text
}

/// A row for each label, a column for each series.
fn chart(chart: &Chart) -> String {
    let series = chart.series.iter().map(|(name, _)| name.clone());
    let labels_are = std::iter::once(chart.labels_are.clone());
    let columns: Vec<String> = labels_are.chain(series).collect();
    let rows = chart.labels.iter().enumerate().map(|(index, label)| {
        let values = chart.series.iter().map(|(_, values)| values.get(index));
        let values = values.map(|value| value.map_or(String::new(), |value| number(*value)));
        std::iter::once(label.clone()).chain(values).collect()
    });
    table(&columns, &rows.collect::<Vec<_>>())
}

fn table(columns: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    let mut text = row(columns);
    let _ = writeln!(text, "|{}", "---|".repeat(columns.len()));
    text.extend(rows.iter().map(|cells| row(cells)));
    text
}

fn row(cells: &[impl AsRef<str>]) -> String {
    let cells = cells.iter().map(|cell| cell.as_ref().replace('|', "\\|"));
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}
