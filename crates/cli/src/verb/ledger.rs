//! `haltwise ledger`: what was predicted, and what came of it; the work is in [`crate::ledger`].

use std::path::PathBuf;

use crate::exit::Outcome;
use crate::ledger;
use crate::terminal::Width;

/// Arguments of `haltwise ledger`.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "List predictions and what came of them, and how good they were

Each `haltwise prove` of six rounds or more adds what replay had predicted and \
what was measured. The ledger is only ever added to. It lies in \
/var/lib/haltwise/ledger.jsonl for root, else in \
$XDG_STATE_HOME/haltwise/ledger.jsonl (~/.local/state).",
    after_help = "EXAMPLES
  haltwise ledger                       every proof, and how good predictions are
  haltwise ledger --ledger FILE         another ledger
  haltwise ledger --json | jq .summary  the same for programs

Exits with 5 if lines could not be read."
)]
pub(crate) struct Arguments {
    /// The ledger [default: see above]
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Print JSON (schema 1, see docs/ledger.md) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Lists and sums up.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let width = arguments.width.columns();
    ledger::show(arguments.ledger.as_deref(), arguments.json, width)
}
