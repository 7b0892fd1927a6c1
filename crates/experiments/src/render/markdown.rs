//! Findings as Markdown: what `docs/experiments.md` is made of.

use std::fmt::Write as _;

use super::{
    counts, failure, groups, host, how, legend, limits, number, scaled, verdicts, witness,
};
use crate::experiment::found::{Found, Report};
use crate::experiment::{Chart, Table, registry};

pub fn markdown(report: &Report) -> String {
    let mut text = String::from(
        "# The sources' experiments, reproduced\n\n\
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
         This page is generated from a kept run, judged by the rules of this version; do not edit it.\n\n",
    );
    let run = format!(
        "Run by {} on Linux {}, {}, seed {}.\n\n",
        report.program,
        report.host.kernel,
        host(report),
        report.seed
    );
    text.push_str(&run);
    text.push_str(&list(&counts(report)));
    for all in verdicts(report) {
        let _ = write!(text, "\n## {}\n\n", all.title);
        text.push_str(&table(&all));
    }
    for found in &report.experiments {
        text.push_str(&one(report, found));
    }
    text
}

fn one(report: &Report, found: &Found) -> String {
    let mut text = format!("\n## {}: {}\n\n", found.name, found.title);
    let _ = write!(text, "Source: {}. It reports:\n\n", found.source.document);
    text.push_str(&list(&found.source.reports));
    if let Some(scaled) = scaled(report, found) {
        let _ = write!(text, "\n{scaled}\n");
    }
    if let Some(experiment) = registry::find(&found.name) {
        let _ = write!(text, "\nOn your host: {}.\n", experiment.on_your_host);
    }
    if let Some(failure) = failure(found) {
        let _ = writeln!(text, "\nIt {failure}.");
        return text;
    }
    let _ = write!(text, "\nMeasured in {}.\n\n", how(report, found));
    text.push_str(&list(&limits(found)));
    for group in groups(found) {
        let _ = write!(text, "\n### {}, {}\n\n", found.name, group.title);
        text.push_str(&table(&group));
    }
    text.push('\n');
    text.push_str(&list(&legend(found)));
    for own in &found.tables {
        let _ = write!(text, "\n{}:\n\n", own.title);
        text.push_str(&table(own));
    }
    for own in &found.charts {
        let _ = write!(text, "\n{}:\n\n", own.title);
        text.push_str(&table(&as_table(own)));
    }
    text.push('\n');
    text.push_str(&list(&found.notes));
    if !found.notes.is_empty() {
        text.push('\n');
    }
    text.push_str(&list(&witness(&found.witness)));
    text
}

fn list(lines: &[String]) -> String {
    let items = lines.iter().map(|line| ["* ", line, "\n"].concat());
    items.collect()
}

fn as_table(chart: &Chart) -> Table {
    let series = chart.series.iter().map(|(name, _)| name.clone());
    let rows = chart.labels.iter().enumerate().map(|(index, label)| {
        let values = chart.series.iter().map(|(_, values)| values.get(index));
        let values = values.map(|value| value.map_or(String::new(), |value| number(*value)));
        std::iter::once(label.clone()).chain(values).collect()
    });
    Table {
        title: chart.title.clone(),
        columns: std::iter::once(chart.labels_are.clone())
            .chain(series)
            .collect(),
        rows: rows.collect(),
    }
}

fn table(table: &Table) -> String {
    let row = |cells: &[String]| {
        let cells = cells.iter().map(|cell| cell.replace('|', "\\|"));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut text = row(&table.columns);
    let _ = writeln!(text, "|{}", "---|".repeat(table.columns.len()));
    text.extend(table.rows.iter().map(|cells| row(cells)));
    text
}
