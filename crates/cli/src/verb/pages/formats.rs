//! Pages of columns, of metrics and of rules, from their declarations.

use haltwise_capture::costs;
use haltwise_capture::table::{Column, Table};
use haltwise_core::explain::{Rule, in_guest, registry};

use crate::exporter::figures;

/// Names of the files, and their texts.
pub(super) fn all() -> [(&'static str, String); 4] {
    let tables = Table::ALL.map(|table| columns(table.as_str(), table.columns()));
    let capture =
        "# Columns of a capture\n\n[The capture](capture-format.md) says what a row is.\n";
    let sums =
        "# Columns of a costs table\n\n[Costs tables](costs-format.md) says what a row is.\n";
    let list = "# List of rules\n\n[Rules](rules.md) says how a finding is judged.\n";
    let rules = rules("Hosts", registry::RULES) + &rules("Guests", in_guest::RULES);
    [
        ("capture-columns.md", capture.to_owned() + &tables.concat()),
        (
            "costs-columns.md",
            sums.to_owned() + &columns("Columns", costs::COLUMNS),
        ),
        ("metrics-list.md", figures::page()),
        ("rules-list.md", list.to_owned() + &rules),
    ]
}

fn columns(title: &str, columns: &[Column]) -> String {
    let rows = columns.iter().map(|column| {
        let null = column.null.unwrap_or("never");
        let (name, kind, meaning) = (column.name, column.kind.as_str(), column.meaning);
        format!("| `{name}` | {kind} | {null} | {meaning} |\n")
    });
    let head = "| column | type | NULL | meaning |\n| --- | --- | --- | --- |";
    format!("\n## {title}\n\n{head}\n{}", rows.collect::<String>())
}

fn rules(title: &str, rules: &[Rule]) -> String {
    let rows = rules.iter().map(|rule| {
        let Rule {
            id, title, source, ..
        } = rule;
        format!("| `{id}` | {title} | {source} |\n")
    });
    let head = "| rule | finds | source |\n| --- | --- | --- |";
    format!("\n## {title}\n\n{head}\n{}", rows.collect::<String>())
}
