//! `haltwise doctor`: what can be seen on this host, and which settings are in force.

use haltwise_host::root::Root;

use crate::doctor::view::Diagnosis;
use crate::doctor::{examine, page};
use crate::exit::{Exit, Outcome};
use crate::shown::Shown;

#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise doctor
  haltwise doctor --json | jq .knobs

Does not change anything. Exits with 0 if halts can be recorded on this host,
with 4 if that needs more privileges, with 3 if this kernel does not support it.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut diagnosis = examine::examine(&Root::host())?;
    let shown = &arguments.shown;
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
