//! `haltwise ledger`: what was predicted, and what came of it; the work is in [`crate::ledger`].

use std::path::PathBuf;

use crate::exit::Outcome;
use crate::ledger;
use crate::shown::Shown;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show how accurate past predictions were

Each `haltwise prove` of six rounds or more appends the prediction and the \
measured result to the ledger. Entries are never changed or removed. The ledger \
is /var/lib/haltwise/ledger.jsonl for root, otherwise \
$XDG_STATE_HOME/haltwise/ledger.jsonl (~/.local/state).",
    after_help = "EXAMPLES
  haltwise ledger                       all entries, and the accuracy
  haltwise ledger --ledger FILE         another ledger
  haltwise ledger --json | jq .summary  the accuracy as JSON

Exits with 5 if some lines cannot be read."
)]
pub(crate) struct Arguments {
    /// Ledger file [default: /var/lib/haltwise/ledger.jsonl for root, else
    /// ~/.local/state/haltwise/ledger.jsonl]
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    ledger::read(arguments.ledger.as_deref())?.print(&arguments.shown)
}
