//! `haltwise explain DIR`: what a capture shows that can be put right, and how.

use std::path::PathBuf;

use crate::exit::{Exit, Outcome};
use crate::explain::told::Told;
use crate::explain::{load, page, view};
use crate::reading::opened::Opened;
use crate::reading::select;
use crate::recommend::Looking;
use crate::recommend::candidates::TuneRequest;
use crate::recommend::goal::Weight;
use crate::shown::Shown;

#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise explain cap                 findings, most expensive first
  haltwise explain cap --goal latency  latency counts ten times as much as CPU
  haltwise explain cap --vm web-1      one VM only, by name
  haltwise explain cap --json | jq -r '.findings[] | [.rule, .remedy] | @tsv'

Remedies that would do harm on this host are listed with the reason. Findings
that cost less than 0.2 % of a CPU are counted but not shown.

Rules about exits need `haltwise record --exits`, some need
`--exits=msr,pio,mmio`. Rules without data are listed as not evaluated.

Exits with 5 if the capture is truncated or damaged, or if events were lost.")]
pub(crate) struct Arguments {
    /// Capture directory, written by `haltwise record` or `import`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Only this VM, by a name, UUID, VMID or PID [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    #[command(flatten)]
    weight: Weight,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let opened = Opened::open(&arguments.dir)?;
    let vms = select::vms(&opened.info().roster, arguments.vm.as_deref())?;
    let only = arguments.vm.as_ref().map(|_| vms.clone());
    let request = TuneRequest::of_goal(arguments.weight.goal, only);
    let (loaded, told) = if opened.info().side.is_host() {
        let mut looking = Looking::new(&opened, &request);
        let (loaded, ends) = load::load(&opened, &mut [looking.sink()])?;
        looking.go_on(&opened, &ends);
        let recommended = looking.recommend(&opened, &request);
        (loaded, Told::of_host(&recommended))
    } else {
        let (loaded, _) = load::load(&opened, &mut [])?;
        let polled_ns = loaded.recording.ledger.total().poll_ns().unwrap_or(0);
        let (told, _) = Told::of_guest(&opened, &request, polled_ns);
        (loaded, told)
    };
    let mut view = view::view(&loaded, &vms, arguments.weight.milli() as f64 / 1e3, told);
    let shown = &arguments.shown;
    shown.sort(&mut [&mut view.findings])?;
    shown.print(&view, |top| page::document(&view, top))?;
    let partial = view.recording.source.lost > 0 || loaded.recording.is_partial();
    Ok(Exit::of_partial(partial))
}
