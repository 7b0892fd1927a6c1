//! `haltwise undo`: the command line; the work is in [`crate::undo`].

use std::path::PathBuf;

use super::root::root;
use crate::exit::Outcome;
use crate::undo::{self, UndoOptions};

/// Arguments of `haltwise undo`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the command line's own switches"
)]
#[command(
    long_about = "Restore the settings from before `haltwise apply`

Restores each parameter to what it was before the first apply that set it, and \
removes the files that --persist wrote. Also works after a crash, and after a \
reboot: parameters that no such file sets are then back to their boot values. \
Parameters that were modified externally are left alone. `haltwise status` \
shows what is set, and what was there before.",
    after_help = "EXAMPLES
  haltwise undo                restore the settings
  haltwise undo --dry-run      print what would change

Exits with 5 if a parameter was left alone because it was modified externally."
)]
pub(crate) struct Arguments {
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
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    undo::run(&UndoOptions {
        dry_run: arguments.dry_run,
        take_over: arguments.take_over,
        json: arguments.json,
        root: root(arguments.root),
    })
}
