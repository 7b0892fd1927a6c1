//! `haltwise version`: the version, and of what else a bug report should tell.

use crate::exit::{Exit, Outcome};
use crate::terminal;

/// Arguments of `haltwise version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES\n  haltwise version")]
pub(crate) struct Arguments {}

/// Prints the version.
pub(crate) fn run(_: &Arguments) -> Outcome {
    terminal::print(&format!(
        "haltwise {}\nreport schema {}\n",
        env!("CARGO_PKG_VERSION"),
        crate::report::SCHEMA
    ))?;
    Ok(Exit::Done)
}
