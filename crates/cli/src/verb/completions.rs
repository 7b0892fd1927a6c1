//! `haltwise completions SHELL`: completions, from the same types as the command line.

use clap::CommandFactory;

use crate::exit::{Exit, Outcome};
use crate::{Cli, terminal};

/// Arguments of `haltwise completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise completions bash > /etc/bash_completion.d/haltwise")]
pub(crate) struct Arguments {
    /// Shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "haltwise", &mut text);
    terminal::print_bytes(&text)?;
    Ok(Exit::Done)
}
