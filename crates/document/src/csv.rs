//! Results for other programs: one header, a line for each result, quoted as RFC 4180 says.
//!
//! Every figure of a result is there: times as whole nanoseconds, shares 0 to 1, nothing where it is not known.

use crate::figure::{Figures, leaves};

/// Results as CSV.
pub fn rows<R: Figures>(rows: impl IntoIterator<Item = R>) -> String {
    let leaves = leaves(R::FIGURES);
    let mut text = String::new();
    line(&mut text, leaves.iter().map(|leaf| leaf.column.clone()));
    for row in rows {
        let row = serde_json::to_value(row).unwrap_or_default();
        let cells = leaves.iter();
        line(
            &mut text,
            cells.map(|leaf| leaf.figure.unit.raw(leaf.of(&row))),
        );
    }
    text
}

fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.map(quote).collect();
    text.push_str(&cells.join(","));
    text.push('\n');
}

/// A cell; what could be taken for the end of one stands between quotes.
fn quote(cell: String) -> String {
    if cell.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}
