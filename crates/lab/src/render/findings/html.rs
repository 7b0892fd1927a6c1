//! Findings as one page of plain HTML that needs nothing else.

use std::fmt::Write as _;

use super::{counts, failure, groups, how, legend, limits, number, verdicts, witness};
use crate::experiment::found::{Found, Report};
use crate::experiment::{Chart, Table};

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:.7em 0;display:block;overflow-x:auto}\
th,td{border-bottom:1px solid #ddd;padding:.25em .7em;text-align:left;vertical-align:top}\
th{background:#f6f6f6}.yes{color:#176b2c}.no{color:#a11}.bar{fill:#4477aa}text{font-size:12px}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}th{background:#262626}\
th,td{border-color:#3a3a3a}.yes{color:#6c6}.no{color:#f77}text{fill:#ddd}}";

pub fn html(report: &Report) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>haltwise-lab: experiments</title><style>{STYLE}</style></head><body>\n\
         <h1>The sources' experiments, reproduced</h1>\n\
         <p>{} on Linux {}, {} CPUs, seed {}.</p>\n",
        escape(&report.program),
        escape(&report.host.kernel),
        report.host.cpus,
        report.seed
    );
    page.push_str(&list(&counts(report)));
    for all in verdicts(&report.experiments, true) {
        let _ = write!(page, "<h2>{}</h2>\n{}", escape(&all.title), table(&all));
    }
    for found in &report.experiments {
        page.push_str(&one(report, found));
    }
    page.push_str("</body></html>\n");
    page
}

fn one(report: &Report, found: &Found) -> String {
    let mut text = format!(
        "<h2>{}: {}</h2>\n",
        escape(&found.name),
        escape(&found.title)
    );
    let _ = writeln!(
        text,
        "<p>Source: {}. It reports:</p>",
        escape(&found.source.document)
    );
    text.push_str(&list(&found.source.reports));
    if let Some(failure) = failure(found) {
        let _ = writeln!(text, "<p>It {}.</p>", escape(&failure));
        return text;
    }
    let _ = writeln!(text, "<p>Measured in {}.</p>", escape(&how(report, found)));
    for own in verdicts(std::slice::from_ref(found), false) {
        let _ = write!(text, "<h3>{}</h3>\n{}", escape(&own.title), table(&own));
    }
    text.push_str(&list(&limits(found)));
    for group in groups(found) {
        let _ = writeln!(text, "<h3>{}</h3>", escape(&group.title));
        text.push_str(&table(&group));
    }
    text.push_str(&list(&legend(found)));
    for own in &found.tables {
        let _ = write!(text, "<h3>{}</h3>\n{}", escape(&own.title), table(own));
    }
    for own in &found.charts {
        text.push_str(&chart(own));
    }
    text.push_str(&list(&found.notes));
    text.push_str(&list(&witness(&found.witness)));
    text
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

fn list(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let items = lines
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)));
    format!("<ul>{}</ul>\n", items.collect::<String>())
}

fn table(table: &Table) -> String {
    let heads = table
        .columns
        .iter()
        .map(|head| format!("<th>{}</th>", escape(head)));
    let cell = |cell: &String| {
        let class = match cell.as_str() {
            "yes" => " class=\"yes\"",
            "no" => " class=\"no\"",
            _ => "",
        };
        format!("<td{class}>{}</td>", escape(cell))
    };
    let row =
        |row: &Vec<String>| format!("<tr>{}</tr>\n", row.iter().map(cell).collect::<String>());
    format!(
        "<table><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table>\n",
        heads.collect::<String>(),
        table.rows.iter().map(row).collect::<String>()
    )
}

/// Horizontal bars, a drawing for each series, all of one scale.
fn chart(chart: &Chart) -> String {
    const LINE: usize = 18;
    let most = chart
        .series
        .iter()
        .flat_map(|(_, values)| values)
        .copied()
        .fold(0.0, f64::max);
    let mut text = format!("<h3>{}</h3>\n", escape(&chart.title));
    for (name, values) in &chart.series {
        let height = LINE * values.len();
        let _ = write!(
            text,
            "<p>{}, by {}</p>\n<svg width=\"600\" height=\"{height}\" role=\"img\">",
            escape(name),
            escape(&chart.labels_are)
        );
        for (index, (label, value)) in chart.labels.iter().zip(values).enumerate() {
            let share = if most > 0.0 { value / most } else { 0.0 };
            let (top, base) = (index * LINE, index * LINE + 13);
            let _ = write!(
                text,
                "<text x=\"100\" y=\"{base}\" text-anchor=\"end\">{}</text>\
                 <rect class=\"bar\" x=\"110\" y=\"{top}\" width=\"{:.1}\" height=\"14\"/>\
                 <text x=\"{:.1}\" y=\"{base}\">{}</text>",
                escape(label),
                400.0 * share,
                115.0 + 400.0 * share,
                number(*value)
            );
        }
        text.push_str("</svg>\n");
    }
    text
}
