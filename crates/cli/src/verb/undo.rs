//! `haltwise undo`: the command line; the work is in [`crate::undo`].

use std::path::PathBuf;

use super::root::{fault, root};
use crate::exit::Outcome;
use crate::undo::{self, Steps, Wanted};

/// Arguments of `haltwise undo`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the command line's own switches"
)]
#[command(
    long_about = "Restore the settings from before `haltwise apply`

Reverts the latest apply, or all of them with --all. Also works after a crash \
during apply, and after a reboot: the parameters are then back to their boot \
values, and only the files that set them at boot are removed. Parameters that \
were modified externally are left alone.",
    after_help = "EXAMPLES
  haltwise undo                revert the latest apply
  haltwise undo --dry-run      print what would change
  haltwise undo --step 3       revert step 3 only
  haltwise undo --all          revert all of them

`haltwise status` lists the steps. Exits with 5 if a parameter was left alone
because it was modified externally."
)]
pub(crate) struct Arguments {
    /// Revert all steps, latest first
    #[arg(long, conflicts_with = "step")]
    all: bool,
    /// Revert this step only; no later step may have set the same parameter
    #[arg(long, value_name = "N")]
    step: Option<u64>,
    /// Only print what would change
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// For scripts: accepted as by apply; undo makes the changes with or without it
    #[arg(long)]
    yes: bool,
    /// Also revert parameters that were modified externally
    #[arg(long)]
    take_over: bool,
    /// Print JSON (schema 1, see docs/status-json.md)
    #[arg(long)]
    json: bool,
    /// Directory that holds /sys, /proc, /etc and /var, to try it out [default: /]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// For tests: exit as if killed before the Nth write
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
