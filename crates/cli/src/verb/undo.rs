//! `haltwise undo`: the command line; the work is in [`crate::undo`].

use std::path::PathBuf;

use super::apply::{fault, root};
use crate::exit::Outcome;
use crate::undo::{self, Steps, Wanted};

/// Arguments of `haltwise undo`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the command line's own switches"
)]
#[command(
    long_about = "Take back what `haltwise apply` has set

The newest step first; all of them with --all. Works after a crash in the \
middle of an apply, and after a boot: then parameters are back already, and \
what is left are the files that set them again. What somebody else has set \
since is left as it is.",
    after_help = "EXAMPLES
  haltwise undo                take the newest step back
  haltwise undo --dry-run      say what that would do
  haltwise undo --step 3       that step, if no later one has set the same
  haltwise undo --all          all that is in force

`haltwise status` lists the steps. Exits with 5 if something was left because
somebody else has set it since."
)]
pub(crate) struct Arguments {
    /// All steps, newest first
    #[arg(long, conflicts_with = "step")]
    all: bool,
    /// This step
    #[arg(long, value_name = "N")]
    step: Option<u64>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Also where somebody else has set it since
    #[arg(long)]
    take_over: bool,
    /// Print JSON (schema 1, see docs/status-json.md) instead of text
    #[arg(long)]
    json: bool,
    /// Where /sys, /proc, /etc and /var lie: another directory than / to try it out
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// For tests: end as kill -9 would, before the Nth write to the machine
    #[arg(long, value_name = "N", hide = true)]
    die_before: Option<u64>,
}

/// Undoes.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let steps = match (arguments.all, arguments.step) {
        (true, _) => Steps::All,
        (false, Some(step)) => Steps::One(step),
        (false, None) => Steps::Newest,
    };
    undo::run(&Wanted {
        steps,
        dry_run: arguments.dry_run,
        take_over: arguments.take_over,
        json: arguments.json,
        root: root(arguments.root),
        fault: fault(arguments.die_before),
    })
}
