//! How a result is shown: as text or JSON, and how much of it. Options that verbs share.

use anyhow::anyhow;
use haltwise_document::text::Style;
use haltwise_document::{Document, Sortable};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::page::harmless;
use crate::terminal::{self, Width};

#[derive(Debug, clap::Args)]
pub(crate) struct Shown {
    /// Rows of each table: a number, or `all`
    #[arg(long, value_name = "N", default_value = "20", value_parser = rows)]
    rows: usize,
    /// Sort rows by this field of --json, largest first [default: what costs most]
    #[arg(long, value_name = "FIELD")]
    sort: Option<String>,
    /// Print JSON (see docs/)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

const ALL: usize = usize::MAX;

fn rows(text: &str) -> Result<usize, String> {
    let number = if text == "all" {
        Some(ALL)
    } else {
        text.parse().ok()
    };
    let number = number.filter(|rows| *rows > 0);
    number.ok_or_else(|| "expected a number from 1, or `all`".to_owned())
}

impl Shown {
    pub(crate) fn is_all(&self) -> bool {
        self.rows == ALL
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn width(&self) -> usize {
        self.width.columns()
    }

    pub(crate) fn is_sorted(&self) -> bool {
        self.sort.is_some()
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Sorts tables as asked for; those that have no such field stay as they are.
    pub(crate) fn sort(&self, tables: &mut [&mut dyn Sortable]) -> Result<(), Failure> {
        self.sort_by(&[], tables)
    }

    /// The same, where fields have short names besides.
    pub(crate) fn sort_by(
        &self,
        short: &[(&str, &str)],
        tables: &mut [&mut dyn Sortable],
    ) -> Result<(), Failure> {
        let Some(key) = &self.sort else { return Ok(()) };
        let named = short.iter().find(|(name, _)| name == key);
        let key = named.map_or(key.as_str(), |(_, field)| field);
        let mut found = false;
        for table in tables.iter_mut() {
            found |= table.sort_by(key);
        }
        if found {
            return Ok(());
        }
        let mut keys: Vec<String> = tables.iter().flat_map(|it| it.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let error = anyhow!("sort by `{}`: no table has this field", harmless(key));
        Err(Failure::new(Exit::Usage, error).hint(format!("the fields are {}", keys.join(", "))))
    }

    /// Prints a result as it was asked for. `document` lays out so many rows of each table.
    pub(crate) fn print(
        &self,
        result: &impl Serialize,
        document: impl FnOnce(usize) -> Document,
    ) -> Result<(), Failure> {
        if self.json {
            return terminal::print_json(result);
        }
        terminal::document(&document(self.rows()), self.width())
    }

    /// The same of a result whose text is no document.
    pub(crate) fn print_text(
        &self,
        result: &impl Serialize,
        text: impl FnOnce(Style) -> String,
    ) -> Result<(), Failure> {
        if self.json {
            return terminal::print_json(result);
        }
        terminal::page(self.width(), text)
    }
}
