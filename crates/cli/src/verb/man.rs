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

#[cfg(test)]
mod test {
    use clap::Command;
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn too_wide(command: &Command) -> Vec<String> {
        let after = [command.get_after_help(), command.get_after_long_help()];
        let text: Vec<String> = after
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        let lines = text.iter().flat_map(|text| text.lines());
        let wide = lines.filter(|line| line.width() > 80);
        let name = command.get_name();
        let mut found: Vec<String> = wide.map(|line| format!("{name}: {line}")).collect();
        found.extend(command.get_subcommands().flat_map(too_wide));
        found
    }

    /// Help is at most 80 columns wide: a longer line of an example would be wrapped, and could not be pasted.
    #[test]
    fn examples_are_printed_as_they_are_written() {
        assert_eq!(too_wide(&Cli::command()), Vec::<String>::new());
    }
}
