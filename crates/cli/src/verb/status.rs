//! `haltwise status`: what is set and who set it, and with `--check` what can be recorded on this host.

use haltwise_host::root::Root;

use crate::doctor::page;
use crate::doctor::view::{Diagnosis, examine};
use crate::exit::{Exit, Outcome};
use crate::shown::Shown;
use crate::state::GivenRoot;
use crate::status;

#[derive(Debug, clap::Args)]
#[command(
    about = "Show the settings, who set them, and which VMs they apply to; check the host",
    mut_arg("sort", |sort| sort.requires("check").conflicts_with("root")),
    after_long_help = "EXAMPLES
  haltwise status
  haltwise status --json | jq '.steps[].undo'
  haltwise status --check          what can be recorded on this host

Where `haltwise pilot` has run, what it said last is shown: for each VM the
ceiling in force and the one found, the state, since when, why, and what was
saved so far, or would have been, with the 95 % interval.

Does not change anything. Exits with 5 if the record of settings is damaged;
with --check, with 4 if recording needs more privileges, and with 3 if this
kernel does not support it."
)]
pub(crate) struct Arguments {
    /// Check what haltwise can record on this host, and find known problems
    #[arg(long, conflicts_with = "root")]
    check: bool,
    #[command(flatten)]
    root: GivenRoot,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if arguments.check {
        return check(&arguments.shown);
    }
    status::run(&arguments.root, &arguments.shown)
}

fn check(shown: &Shown) -> Outcome {
    let mut diagnosis = examine(&Root::host())?;
    shown.sort(&mut [&mut diagnosis.vms])?;
    let document = |top| page::document(&diagnosis, top);
    shown.print(&diagnosis, document)?;
    Ok(exit(&diagnosis))
}

fn exit(diagnosis: &Diagnosis) -> Exit {
    if diagnosis.best_rung.is_some() {
        Exit::Done
    } else if diagnosis.rungs.iter().any(|rung| rung.denied) {
        Exit::Denied
    } else {
        Exit::Unsupported
    }
}
