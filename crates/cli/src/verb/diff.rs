//! `haltwise diff A B`: what differs between two captures, and not by chance.

use std::path::PathBuf;

use crate::diff::text::Options;
use crate::diff::{self, text};
use crate::exit::{Exit, Outcome};
use crate::terminal::{self, Width};

/// Arguments of `haltwise diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise diff before after                   what differs, the largest first
  haltwise diff before after --all             every figure with its interval
  haltwise diff before after --vm web-1        this VM alone
  haltwise diff before after --vm web-1=web-2  a VM with one of another name
  haltwise diff before after --json | jq '.comparisons[0]'

VMs are matched by name; the only VM of each capture is matched whatever
its name. Exits are compared where both captures hold them (`record --exits`).

Exits with 5 if a capture was cut or damaged, or if events were lost.")]
pub(crate) struct Arguments {
    /// The first capture
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second: differences are B less A
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Only this VM, by name or by its VMM's process, or its name in A and that
    /// in B; may be given again [default: the host, and all that both captures have]
    #[arg(long, value_name = "NAME[=NAME]")]
    vm: Vec<String>,
    /// What may be chance too, and what cannot be told
    #[arg(long)]
    all: bool,
    /// Print JSON (schema 1, see docs/diff-json.md) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Compares and prints.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let view = diff::compare(&arguments.a, &arguments.b, &arguments.vm)?;
    let page = if arguments.json {
        terminal::json(&view)?
    } else {
        text::render(
            &view,
            Options {
                width: arguments.width.columns(),
                all: arguments.all,
            },
        )
    };
    terminal::print(&page)?;
    let partial = [&view.a, &view.b]
        .iter()
        .any(|it| it.lost > 0 || it.cut || it.damaged);
    Ok(if partial { Exit::Partial } else { Exit::Done })
}
