//! `haltwise report --exits [DIR]`: what made guests exit, in a capture or in the next ten seconds, and what that cost.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::ValueEnum;
use haltwise_core::exit::{SubKey, account};
use haltwise_host::exits::ExitOptions;

use crate::collect::recording;
use crate::exit::{Exit, Failure, Outcome};
use crate::exits::page::{self, ExitsTable};
use crate::exits::{load, view};
use crate::page::harmless;
use crate::terminal;

use super::{Arguments, key};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Reason,
    Sub,
    Vm,
    Vcpu,
    Second,
}

fn recorded(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let exits = ExitOptions {
        sub_keys: SubKey::ALL.into_iter().collect(),
    };
    let wanted = recording::RecordingRequest::brief(
        arguments.vm.as_deref(),
        arguments.duration,
        Some(exits),
    );
    recording::own::make_room();
    let recorded = recording::record_if(&wanted, |roster| !roster.vms.is_empty())?;
    if recorded.is_none() {
        let error = anyhow!("no KVM virtual machine runs here: there is nothing to record");
        return Err(Failure::new(Exit::Failed, error)
            .hint("with DIR a capture is read; `haltwise status --check` lists the VMs"));
    }
    let kept = wanted.output.display();
    terminal::say(&format!("capture: {kept}, for haltwise report"));
    Ok(wanted.output)
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let (by, table) = match key(arguments.by.as_deref())?.unwrap_or(By::Reason) {
        By::Reason => (account::By::Reason, ExitsTable::Reasons),
        By::Sub => (account::By::Reason, ExitsTable::Subs),
        By::Vm => (account::By::Vm, ExitsTable::Groups),
        By::Vcpu => (account::By::Vcpu, ExitsTable::Groups),
        By::Second => (account::By::Second, ExitsTable::Groups),
    };
    if arguments.exit.is_some() && table == ExitsTable::Groups {
        let error = anyhow!("--exit: exits by vm, vcpu or second are all exits");
        return Err(Failure::new(Exit::Usage, error).hint("leave out --by, or use --by sub"));
    }
    let dir = match &arguments.dir {
        Some(dir) => dir.clone(),
        None => recorded(arguments)?,
    };
    let loaded = load::load(&dir, by, arguments.vm.as_deref())?;
    let exit = arguments.exit.as_deref();
    let Some(mut view) = view::build(&loaded, exit, table == ExitsTable::Groups) else {
        let exit = harmless(exit.unwrap_or_default());
        let error = anyhow!("no exit of this capture has the reason `{exit}`");
        return Err(Failure::new(Exit::Usage, error)
            .hint("`haltwise report DIR --exits` without --exit lists those it has"));
    };
    let shown = &arguments.shown;
    shown.sort(&mut [
        &mut view.reasons,
        &mut view.userspace,
        &mut view.subs,
        &mut view.groups,
    ])?;
    shown.print(&view, |top| page::document(&view, table, top))?;
    let partial = view.recording.source.lost > 0 || loaded.recording.is_partial();
    Ok(Exit::of_partial(partial))
}
