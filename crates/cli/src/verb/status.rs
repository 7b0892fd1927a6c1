//! `haltwise status`: the command line; the work is in [`crate::status`].

use std::path::PathBuf;

use super::apply::root;
use crate::exit::Outcome;
use crate::status;

/// Arguments of `haltwise status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise status
  haltwise status --json | jq '.steps[].undo'

Changes nothing. Exits with 1 if the journal is damaged.")]
pub(crate) struct Arguments {
    /// Print JSON (schema 1, see docs/status-json.md) instead of text
    #[arg(long)]
    json: bool,
    /// Where /sys, /proc, /etc and /var lie: another directory than / to try it out
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Prints what is in force.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    status::run(&root(arguments.root), arguments.json)
}
