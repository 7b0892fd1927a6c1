//! `haltwise apply`: the command line; the work is in [`crate::apply`].

use std::path::PathBuf;

use haltwise_host::knob::{Fault, Parameter};
use haltwise_host::root::Root;

use crate::apply::{self, Source, Wanted};
use crate::exit::{Exit, Failure, Outcome};

/// Arguments of `haltwise apply`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the command line's own switches"
)]
#[command(
    long_about = "Set KVM's halt polling parameters, in a way that can be undone

Without --yes it only says what it would do. The parameters hold for the whole \
host: for every VM that has no cap of its own. What is set is journaled first, \
and undone by `haltwise undo`. A parameter that somebody else has set since is \
theirs: it is refused, unless --take-over is given.",
    after_help = "EXAMPLES
  haltwise apply plan.json                        what a plan of tune would do
  haltwise apply plan.json --yes                  do it
  haltwise apply --set halt_poll_ns=80us          what that would do
  haltwise apply --set halt_poll_ns=0 --yes       switch polling off
  haltwise apply --set halt_poll_ns=80us --persist --yes

Exits with 5 if it was set and a running VM does not follow, with 3 if this
kernel lacks the parameter or lets nobody write it."
)]
pub(crate) struct Arguments {
    /// A plan that `haltwise tune --plan` wrote
    #[arg(value_name = "PLAN", required_unless_present = "set")]
    plan: Option<PathBuf>,
    /// A parameter and its value, `halt_poll_ns=80us`; may be given again
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "plan")]
    set: Vec<String>,
    /// Do it
    #[arg(long)]
    yes: bool,
    /// Have it set again at every boot
    #[arg(long)]
    persist: bool,
    /// Also where somebody else has set it since haltwise did
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

/// Applies, or says what it would do.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let source = match arguments.plan {
        Some(path) => Source::Plan(path),
        None => Source::Set(settings(&arguments.set)?),
    };
    apply::run(&Wanted {
        source,
        yes: arguments.yes,
        persist: arguments.persist,
        take_over: arguments.take_over,
        json: arguments.json,
        root: root(arguments.root),
        fault: fault(arguments.die_before),
    })
}

/// The machine, or a directory instead.
pub(super) fn root(directory: Option<PathBuf>) -> Root {
    directory.map_or_else(Root::host, Root::at)
}

/// Where a test wants it to end.
pub(super) fn fault(before: Option<u64>) -> Option<Fault> {
    before.map(|before| Fault::Kill { before })
}

/// Reads `NAME=VALUE` texts; a parameter that comes twice is an error.
fn settings(texts: &[String]) -> Result<Vec<(Parameter, u32)>, Failure> {
    let mut settings: Vec<(Parameter, u32)> = Vec::new();
    for text in texts {
        let usage = |error: anyhow::Error| Failure::new(Exit::Usage, error);
        let Some((name, value)) = text.split_once('=') else {
            return Err(
                usage(anyhow::anyhow!("--set {text}: there is no `=` in it"))
                    .hint("for example --set halt_poll_ns=80us"),
            );
        };
        let parameter: Parameter = name
            .parse()
            .map_err(|error| usage(anyhow::Error::new(error)))?;
        let value = parameter
            .value(value)
            .map_err(|error| usage(anyhow::Error::new(error)))?;
        if settings.iter().any(|(other, _)| *other == parameter) {
            return Err(usage(anyhow::anyhow!("--set {parameter} is given twice")));
        }
        settings.push((parameter, value));
    }
    Ok(settings)
}
