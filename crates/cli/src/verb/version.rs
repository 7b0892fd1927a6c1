//! `haltwise version`: the version, and of what else a bug report should tell.

use crate::exit::{Exit, Outcome};
use crate::terminal;

/// Arguments of `haltwise version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES\n  haltwise version")]
pub(crate) struct Arguments {}

/// Prints the version, and that of the report's JSON.
pub(crate) fn run(_: &Arguments, report_schema: u32) -> Outcome {
    terminal::print(&format!(
        "haltwise {}\nreport schema {report_schema}\n",
        env!("CARGO_PKG_VERSION"),
    ))?;
    Ok(Exit::Done)
}
