//! `haltwise status`: the command line; the work is in [`crate::status`].

use crate::exit::Outcome;
use crate::state::GivenRoot;
use crate::status;

#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise status
  haltwise status --json | jq '.steps[].undo'

Where `haltwise pilot` has run, what it said last is shown: for each VM the
ceiling in force and the one found, the state, since when, why, and what was
saved so far, or would have been, with the 95 % interval.

Does not change anything. Exits with 1 if the record of settings is damaged.")]
pub(crate) struct Arguments {
    /// Print JSON (schema 1, see docs/status-json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    root: GivenRoot,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    status::run(&arguments.root, arguments.json)
}
