//! `haltwise diff A B`: what differs between two captures, and not by chance.

use std::path::PathBuf;

use crate::diff::{self, page};
use crate::exit::{Exit, Outcome};
use crate::shown::Shown;

#[derive(Debug, clap::Args)]
#[command(
    about = "Compare two captures for statistically significant differences",
    after_long_help = "EXAMPLES
  haltwise diff before after                   what differs significantly
  haltwise diff before after --rows all        every figure with its interval
  haltwise diff before after --vm web-1        this VM alone
  haltwise diff before after --vm web-1=web-2  VMs with different names
  haltwise diff before after --json | jq '.comparisons[0]'

VMs are matched by name. If each capture has one VM only, these are matched
whatever their names. Exits are compared if both captures contain them.

Exits with 5 if a capture is truncated or damaged, or if events were lost."
)]
pub(crate) struct Arguments {
    /// The first capture
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second capture; differences are B minus A
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Only this VM, by name or PID; NAME=NAME if its names in A and B differ; may be
    /// repeated [default: the host and all VMs that are in both captures]
    #[arg(long, value_name = "NAME[=NAME]")]
    vm: Vec<String>,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut view = diff::compare(&arguments.a, &arguments.b, &arguments.vm)?;
    let shown = &arguments.shown;
    shown.sort(&mut [&mut view.comparisons])?;
    shown.print(&view, |top| page::document(&view, top, shown.is_all()))?;
    let partial = [&view.a, &view.b]
        .iter()
        .any(|it| it.lost > 0 || it.cut || it.damaged);
    Ok(Exit::of_partial(partial))
}
