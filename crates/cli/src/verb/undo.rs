//! `haltwise undo`: the command line; the work is in [`crate::undo`].

use crate::exit::Outcome;
use crate::undo::{self, UndoOptions};

#[derive(Debug, clap::Args)]
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
    #[command(flatten)]
    options: UndoOptions,
    /// For scripts: accepted as by apply; undo makes the changes with or without it
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    undo::run(&arguments.options)
}
