//! Sections of `haltwise report`: `--exits`, what made guests exit, in a capture or in the next ten seconds, and what that
//! cost; `--findings`, what can be put right, and how; `--profile`, where the threads of VMMs spent their time.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use haltwise_capture::files::output::{self, Readers};
use haltwise_core::exit::{SubKey, account};
use haltwise_core::profile::account::Site;
use haltwise_core::profile::{Event, tree};
use haltwise_host::exits::ExitOptions;

use crate::collect::recording::{self, RecordingRequest};
use crate::exit::{Exit, Failure, Outcome};
use crate::exits::page::ExitsTable;
use crate::explain::tune_advice::TuneAdvice;
use crate::page::harmless;
use crate::profile::load::Loaded;
use crate::reading::opened::Opened;
use crate::reading::select;
use crate::recommend::Looking;
use crate::recommend::candidates::TuneRequest;
use crate::verb::report::{Arguments, key};
use crate::{exits, explain, profile, terminal};

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
    let vm = arguments.vm.as_deref();
    let wanted = RecordingRequest::brief(vm, arguments.duration, Some(exits));
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

pub(super) fn exits(arguments: &Arguments) -> Outcome {
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
    let loaded = exits::load::load(&dir, by, arguments.vm.as_deref())?;
    let exit = arguments.exit.as_deref();
    let Some(mut view) = exits::view::build(&loaded, exit, table == ExitsTable::Groups) else {
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
    shown.print(&view, |top| exits::page::document(&view, table, top))?;
    let partial = view.recording.source.lost > 0 || loaded.recording.is_partial();
    Ok(Exit::of_partial(partial))
}

pub(super) fn findings(arguments: &Arguments) -> Outcome {
    let opened = Opened::open(arguments.dir()?)?;
    let vms = select::vms(&opened.info().roster, arguments.vm.as_deref())?;
    let only = arguments.vm.as_ref().map(|_| vms.clone());
    let request = TuneRequest::of_goal(arguments.weight.goal, only);
    let mut looking = Looking::new(&opened, &request);
    let (loaded, ends) = explain::load::load(&opened, &mut looking.sinks())?;
    looking.go_on(&opened, &ends);
    let tuned = looking.recommend(&opened, &request);
    let told = TuneAdvice::of(&tuned, &opened, &loaded.recording);
    let mut view = explain::view::view(&loaded, &vms, arguments.weight.milli() as f64 / 1e3, told);
    let shown = &arguments.shown;
    shown.sort(&mut [&mut view.findings])?;
    shown.print(&view, |top| explain::page::document(&view, top))?;
    let partial = view.recording.source.lost > 0 || loaded.recording.is_partial();
    Ok(Exit::of_partial(partial))
}

pub(super) fn profile(arguments: &Arguments) -> Outcome {
    let by = key(arguments.by.as_deref())?;
    let loaded = profile::load::load(arguments.dir()?, arguments.vm.as_deref())?;
    let event = loaded.event(arguments.event)?;
    let exit = arguments.exit.as_deref();
    let Some(mut view) =
        profile::view::build(&loaded, event, by.unwrap_or(profile::view::By::Vm), exit)
    else {
        let exit = harmless(exit.unwrap_or_default());
        let error = anyhow!("no sample of this capture belongs to the exit `{exit}`");
        return Err(Failure::new(Exit::Usage, error)
            .hint("`haltwise report DIR --profile --by exit` lists those it has"));
    };
    arguments.shown.sort(&mut [
        &mut view.groups,
        &mut view.areas,
        &mut view.exits,
        &mut view.symbols,
    ])?;
    let folded = arguments.folded.as_deref();
    if folded.is_some_and(is_stdout) && arguments.shown.is_json() {
        let error = anyhow!("write to stdout: both --folded and --json would");
        return Err(Failure::new(Exit::Usage, error).hint("name a file for --folded"));
    }
    if let Some(file) = folded {
        write_folded(file, arguments, &loaded, event)?;
    }
    if !folded.is_some_and(is_stdout) {
        arguments
            .shown
            .print(&view, |top| profile::page::document(&view, by, top))?;
    }
    let partial = view.recording.source.lost > 0 || loaded.recording.is_partial();
    Ok(Exit::of_partial(partial))
}

fn write_folded(
    file: &Path,
    arguments: &Arguments,
    loaded: &Loaded,
    event: Event,
) -> Result<(), Failure> {
    let exit = arguments.exit.as_deref();
    let wanted = |site: &Site| {
        exit.is_none_or(|exit| site.exit.name(&loaded.reasons).eq_ignore_ascii_case(exit))
    };
    let sites = loaded.account.sites(event);
    let tree = tree::tree(sites.filter(|(site, _)| wanted(site)), &loaded.naming());
    let text: String = (tree::folded(&tree).iter())
        .map(|line| line.clone() + "\n")
        .collect();
    if is_stdout(file) {
        return terminal::print(&text);
    }
    output::write(file, text.as_bytes(), Readers::Owner)
        .with_context(|| format!("write {}", file.display()))
        .map_err(Failure::from)
}

fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}
