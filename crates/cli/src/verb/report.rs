//! `haltwise report DIR`: where the halted time of a capture goes.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::Roster;

use crate::exit::{Exit, Failure, Outcome};
use crate::html::content::{self, Wanted};
use crate::number::count;
use crate::report::text::Options;
use crate::report::{build, load, text};
use crate::terminal::{self, Width};
use crate::{html, page};

/// Arguments of `haltwise report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise report cap                  one screen for each VM
  haltwise report cap --vm web-1       one VM only, by name
  haltwise report cap --vm 4711        by its VMM's process
  haltwise report cap --vcpus          with a row and a chart for each vCPU
  haltwise report cap --json | jq '.vms[].account.poll.cpu_percent'
  haltwise report cap --html cap.html  one file to look at, play with and send
  haltwise report cap --html cap.html --against other --proof proof.json

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
    /// Write a page for browsers, in one file that needs no network: what was found, what
    /// to do, every chart, and what other settings would do with the recorded halts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "vcpus", "width"])]
    html: Option<PathBuf>,
    /// On the page, compare with this capture, as `haltwise diff` does
    #[arg(long, value_name = "DIR", requires = "html")]
    against: Option<PathBuf>,
    /// On the page, show a result that `haltwise prove --json` wrote
    #[arg(long, value_name = "FILE", requires = "html")]
    proof: Option<PathBuf>,
    /// On the page, show how good the predictions of a ledger were
    #[arg(long, value_name = "FILE", requires = "html")]
    ledger: Option<PathBuf>,
    /// For the page, what halts cost: a file of `haltwise-lab calibrate --json`
    #[arg(long, value_name = "FILE", requires = "html")]
    calibration: Option<PathBuf>,
    /// On the page, recommend a ceiling alone, as `haltwise tune --ceiling-only` does
    #[arg(long, requires = "html")]
    ceiling_only: bool,
    #[command(flatten)]
    width: Width,
}

/// Makes the report and prints it.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if let Some(file) = &arguments.html {
        return page_for_browsers(arguments, file);
    }
    let recording = load::load(&arguments.dir)?;
    let wanted = wanted(&recording.roster, arguments.vm.as_deref())?;
    let report = build::report(&recording, |vm| wanted.contains(&vm.index));
    let text = if arguments.json {
        terminal::json(&report)?
    } else {
        let options = Options {
            width: arguments.width.columns(),
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

/// Writes the page.
fn page_for_browsers(arguments: &Arguments, file: &Path) -> Outcome {
    let content = content::content(&Wanted {
        dir: &arguments.dir,
        vm: arguments.vm.as_deref(),
        against: arguments.against.as_deref(),
        proof: arguments.proof.as_deref(),
        ledger: arguments.ledger.as_deref(),
        calibration: arguments.calibration.as_deref(),
        ceiling_only: arguments.ceiling_only,
    })?;
    let bytes = html::write(&content, file)?;
    let kilobytes = count(bytes.div_ceil(1_000) as u64);
    terminal::say(&format!(
        "{}: {kilobytes} kB, for any browser",
        file.display()
    ));
    Ok(if content.is_partial() {
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
