//! `haltwise report DIR`: where the halted time of a capture goes.

use std::path::PathBuf;

use anyhow::anyhow;
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::Roster;

use crate::exit::{Exit, Failure, Outcome};
use crate::page;
use crate::report::text::Options;
use crate::report::{build, load, text};
use crate::terminal;

/// Arguments of `haltwise report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise report cap                  one screen for each VM
  haltwise report cap --vm web-1       one VM only, by name
  haltwise report cap --vm 4711        by its VMM's process
  haltwise report cap --vcpus          with a row and a chart for each vCPU
  haltwise report cap --json | jq '.vms[].account.poll.cpu_percent'

Exits with 5 if the capture was cut or damaged, or if events were lost: the
report is made all the same, and its last lines say what is missing.")]
pub(crate) struct Arguments {
    /// The capture: a directory that `haltwise record` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Only this VM: its name, or the number of its VMM's process [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    /// A row and a chart for each vCPU too
    #[arg(long)]
    vcpus: bool,
    /// Print JSON (schema 1, see docs/report-json.md) instead of text
    #[arg(long)]
    json: bool,
    /// Columns of the text, 60 to 200 [default: $COLUMNS, else the terminal's, else 80]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(60..=200))]
    width: Option<u16>,
}

/// Makes the report and prints it.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let recording = load::load(&arguments.dir)?;
    let wanted = wanted(&recording.roster, arguments.vm.as_deref())?;
    let report = build::report(&recording, |vm| wanted.contains(&vm.index));
    let text = if arguments.json {
        let mut json = serde_json::to_string_pretty(&report)?;
        json.push('\n');
        json
    } else {
        let width = arguments.width.map(usize::from);
        let options = Options {
            width: width.unwrap_or_else(terminal::columns),
            vcpus: arguments.vcpus,
        };
        text::render(&report, options)
    };
    terminal::print(&text)?;
    Ok(if report.recording.lost > 0 || recording.is_partial() {
        Exit::Partial
    } else {
        Exit::Done
    })
}

/// The VMs that `--vm` means: by name, else by process. Without it, all.
pub(crate) fn wanted(roster: &Roster, selector: Option<&str>) -> Result<Vec<VmIndex>, Failure> {
    let vms = &roster.vms;
    let pick = |is_it: &dyn Fn(&Vm) -> bool| -> Vec<_> {
        vms.iter()
            .filter(|vm| is_it(vm))
            .map(|vm| vm.index)
            .collect()
    };
    let Some(selector) = selector else {
        return Ok(pick(&|_| true));
    };
    let mut picked = pick(&|vm| vm.name == selector);
    if picked.is_empty() {
        picked = pick(&|vm| vm.key.pid.to_string() == selector);
    }
    if picked.is_empty() {
        let known: Vec<String> = vms
            .iter()
            .map(|vm| format!("{} ({})", page::harmless(&vm.name), vm.key.pid))
            .collect();
        let error = anyhow!("no VM `{}` in this capture", page::harmless(selector));
        let hint = if known.is_empty() {
            "the capture holds no VM at all".to_owned()
        } else {
            format!("it holds {}", known.join(", "))
        };
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    }
    Ok(picked)
}
