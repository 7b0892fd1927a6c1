//! Tables: a caption, columns with heads, cells that sort by what they mean.

use super::markup::{Element, Markup, el};
use crate::figure::Unit;

#[derive(Debug)]
pub struct Cell {
    content: Markup,
    value: Option<f64>,
}

/// A cell that sorts by its text.
pub fn cell(content: impl Into<Markup>) -> Cell {
    Cell {
        content: content.into(),
        value: None,
    }
}

/// A cell that sorts by a number.
pub fn number(value: f64, content: impl Into<Markup>) -> Cell {
    Cell {
        content: content.into(),
        value: Some(value),
    }
}

/// A number that may not be known.
pub fn maybe(value: Option<f64>, text: impl Fn(f64) -> String) -> Cell {
    match value {
        Some(value) => number(value, text(value)),
        None => cell("-"),
    }
}

#[derive(Debug, Clone)]
pub struct Head {
    pub unit: Unit,
    pub title: String,
    /// Meaning of the column, shown where a pointer rests on the head; empty where the title says it.
    pub meaning: &'static str,
}

/// A column whose title says what it means.
impl From<(Unit, &str)> for Head {
    fn from((unit, title): (Unit, &str)) -> Self {
        Self {
            unit,
            title: title.to_owned(),
            meaning: "",
        }
    }
}

#[derive(Debug)]
pub struct Table {
    caption: String,
    /// Its name for the page's script, which may sort it then.
    id: Option<&'static str>,
    columns: Vec<Head>,
    rows: Vec<(Option<String>, Vec<Cell>)>,
}

impl Table {
    /// A table without rows.
    pub fn new(
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<Head>>,
    ) -> Self {
        Self {
            caption: caption.into(),
            id: None,
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// The script may sort it.
    #[must_use]
    pub fn sortable(mut self, id: &'static str) -> Self {
        self.id = Some(id);
        self
    }

    /// Adds a row; its first cell is its head.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push((None, cells));
    }

    /// Adds a row that links lead to.
    pub fn named_row(&mut self, id: String, cells: Vec<Cell>) {
        self.rows.push((Some(id), cells));
    }

    /// The table, in a place of its own that scrolls where the screen is too narrow.
    pub fn finish(self) -> Element {
        let heads = self.columns.iter().map(|column| {
            let mut head = el("th").attr("scope", "col").class(class(column.unit));
            if !column.meaning.is_empty() {
                head = head.attr("title", column.meaning.replace('`', ""));
            }
            head.with(column.title.as_str())
        });
        let head = el("thead").with(el("tr").with_all(heads));
        let columns = &self.columns;
        let rows = self.rows.into_iter().map(|(id, cells)| {
            let cells = cells.into_iter().zip(columns).enumerate();
            let cells = cells.map(|(n, (cell, column))| {
                let mut made = if n == 0 {
                    el("th").attr("scope", "row")
                } else {
                    el("td")
                };
                made = made.class(class(column.unit));
                if let Some(value) = cell.value {
                    made = made.attr("data-v", value);
                }
                made.with(cell.content)
            });
            let row = el("tr").with_all(cells);
            match id {
                Some(id) => row.attr("id", id),
                None => row,
            }
        });
        let body = el("tbody").with_all(rows);
        let mut table = el("table");
        if let Some(id) = self.id {
            table = table.attr("id", id).flag("data-sorts");
        }
        let caption = el("caption").with(self.caption.clone());
        el("div")
            .class("scroll")
            .attr("tabindex", 0)
            .attr("role", "region")
            .attr("aria-label", self.caption)
            .with(table.with(caption).with(head).with(body))
    }
}

fn class(unit: Unit) -> &'static str {
    match unit {
        Unit::Drawn => "b",
        unit if unit.is_number() => "n",
        _ => "t",
    }
}
