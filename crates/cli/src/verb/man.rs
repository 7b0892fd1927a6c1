//! `haltwise man`: manual pages, from the same types as the command line.

use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;

use crate::exit::{Exit, Outcome};
use crate::{Cli, terminal};

/// Arguments of `haltwise man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise man | man -l -
  haltwise man --dir /usr/local/share/man/man1")]
pub(crate) struct Arguments {
    /// Write haltwise.1 and a page for each command to this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the page or writes the pages.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if let Some(dir) = &arguments.dir {
        clap_mangen::generate_to(Cli::command(), dir)
            .with_context(|| format!("write manual pages into {}", dir.display()))?;
        return Ok(Exit::Done);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .context("write the manual page")?;
    terminal::print_bytes(&page)?;
    Ok(Exit::Done)
}
