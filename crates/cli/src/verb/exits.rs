//! `haltwise exits [DIR]`: what made guests exit, in a capture or in the next ten seconds, and what that cost.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::ValueEnum;
use haltwise_core::exit::{SubKey, account};
use haltwise_core::units::Nanos;
use haltwise_host::exits::ExitOptions;

use crate::collect::recording;
use crate::exit::{Exit, Failure, Outcome};
use crate::exits::page::{self, ExitsTable};
use crate::exits::{build, load};
use crate::page::harmless;
use crate::reading::select;
use crate::shown::Shown;
use crate::terminal;
use crate::time;

#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise exits --vm web-1                 record ten seconds, say why it exits
  haltwise exits cap                        by reason, most expensive first
  haltwise exits cap --by vm                by VM (or vcpu, second)
  haltwise exits cap --sub                  by MSR, port, page and so on
  haltwise exits cap --reason MSR_WRITE --sub    the MSRs that were written

Without DIR, ten seconds are recorded with all details, and the capture is kept.
A capture must contain exits: record it with `haltwise record --exits`, or
`--exits=msr,pio,...` to count them by MSR, port and so on.

Exits with 5 if the capture is truncated or damaged, or if events were lost.")]
pub(crate) struct Arguments {
    /// Capture directory, written by `haltwise record --exits` [default: record
    /// one]
    #[arg(value_name = "DIR", conflicts_with = "duration")]
    dir: Option<PathBuf>,
    /// How long to record [default: 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = time::duration)]
    duration: Option<Nanos>,
    /// Group exits by this
    #[arg(long, value_enum, default_value_t = By::Reason)]
    by: By,
    /// Only exits with this reason, by name or number [default: all]
    #[arg(long, value_name = "NAME", conflicts_with = "by")]
    reason: Option<String>,
    /// List MSRs, ports, pages and so on instead of reasons
    #[arg(long, conflicts_with = "by")]
    sub: bool,
    /// Only this VM, by a name, UUID, VMID or PID [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

/// By what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Reason,
    Vm,
    Vcpu,
    Second,
}

impl From<By> for account::By {
    fn from(by: By) -> Self {
        match by {
            By::Reason => Self::Reason,
            By::Vm => Self::Vm,
            By::Vcpu => Self::Vcpu,
            By::Second => Self::Second,
        }
    }
}

/// How long is recorded where nobody says otherwise.
const LONG_ENOUGH: Nanos = Nanos(10_000_000_000);

/// Records exits with all that they can be told apart by.
fn recorded(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let Nanos(ns) = arguments.duration.unwrap_or(LONG_ENOUGH);
    let exits = ExitOptions {
        sub_keys: SubKey::ALL.into_iter().collect(),
    };
    let wanted = recording::RecordingRequest::brief(arguments.vm.as_deref(), ns, Some(exits));
    recording::own::make_room();
    let recorded = recording::record_if(&wanted, |roster| !roster.vms.is_empty())?;
    if recorded.is_none() {
        let error = anyhow!("no KVM virtual machine runs here: there is nothing to record");
        return Err(Failure::new(Exit::Failed, error)
            .hint("`haltwise exits DIR` reads a capture; `haltwise doctor` lists the VMs"));
    }
    let kept = wanted.output.display();
    terminal::say(&format!("capture: {kept}, for haltwise explain and report"));
    Ok(wanted.output)
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let dir = match &arguments.dir {
        Some(dir) => dir.clone(),
        None => recorded(arguments)?,
    };
    let loaded = load::load(&dir, arguments.by.into(), |recording| {
        let selector = arguments.vm.as_deref();
        let vms = select::vms(&recording.roster, selector)?;
        Ok(selector.map(|_| vms))
    })?;
    let reason = arguments.reason.as_deref();
    let groups = arguments.by != By::Reason;
    let Some(mut view) = build::build(&loaded, reason, groups) else {
        let reason = harmless(reason.unwrap_or_default());
        let error = anyhow!("no exit of this capture has the reason `{reason}`");
        return Err(Failure::new(Exit::Usage, error)
            .hint("`haltwise exits DIR` without --reason lists those it has"));
    };
    let shown = &arguments.shown;
    shown.sort(&mut [
        &mut view.reasons,
        &mut view.userspace,
        &mut view.subs,
        &mut view.groups,
    ])?;
    let wanted = match (arguments.sub, groups) {
        (true, _) => ExitsTable::Subs,
        (_, true) => ExitsTable::Groups,
        _ => ExitsTable::Reasons,
    };
    let document = |top| page::document(&view, wanted, top);
    shown.print(&view, document)?;
    let partial = view.recording.source.lost > 0 || loaded.recording.is_partial();
    Ok(Exit::of_partial(partial))
}
