//! How a result is shown: as text, JSON or CSV, and how much of it. Options that verbs share.

use haltwise_document::Document;
use serde::Serialize;

use crate::exit::Failure;
use crate::terminal::{self, Width};

/// Rows of a table where nobody says otherwise.
const ROWS: usize = 20;

/// What a user can choose.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Shown {
    /// Print so many rows of each table, what costs most first [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Print every row
    #[arg(long, conflicts_with = "top")]
    all: bool,
    /// Print the table as CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON (schema 1, see docs/)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

impl Shown {
    /// Whether it is printed for other programs.
    pub(crate) fn is_data(self) -> bool {
        self.csv || self.json
    }

    /// Prints a result as it was asked for. `document` lays out so many rows of each table.
    pub(crate) fn print(
        self,
        result: &impl Serialize,
        csv: impl FnOnce() -> String,
        document: impl FnOnce(usize) -> Document,
    ) -> Result<(), Failure> {
        if self.json {
            return terminal::print_json(result);
        }
        if self.csv {
            return terminal::print(&csv());
        }
        let top = self.top.map_or(ROWS, |top| top as usize);
        let top = if self.all { usize::MAX } else { top };
        terminal::document(&document(top), self.width.columns())
    }
}
