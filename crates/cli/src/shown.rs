//! How a result is shown: as text or JSON, and how much of it. Options that verbs share.

use anyhow::anyhow;
use haltwise_document::text::Style;
use haltwise_document::{Document, Sortable};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::page::harmless;
use crate::terminal::{self, Width};

/// Rows of a table where nobody says otherwise.
const ROWS: usize = 20;

/// What a user can choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Shown {
    /// Print so many rows of each table, what costs most first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = ROWS)]
    top: usize,
    /// Print every row
    #[arg(long, conflicts_with = "top")]
    all: bool,
    /// Sort rows by this field, as --json names it, largest first [default: what costs most]
    #[arg(long, value_name = "FIELD")]
    sort: Option<String>,
    /// Print JSON (see docs/)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

impl Shown {
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    /// Rows of a table, at most.
    pub(crate) fn rows(&self) -> usize {
        match self.top {
            top if top > 0 && !self.all => top,
            _ => usize::MAX,
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.width.columns()
    }

    /// Whether an order was asked for.
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
