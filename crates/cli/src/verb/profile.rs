//! `haltwise profile DIR`: where the threads of VMMs spent their time.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use haltwise_capture::files::output::{self, Readers};
use haltwise_core::profile::tree::{self, Node};
use haltwise_core::profile::{Event, account::Site, share::Sum};

use crate::collect::profile::EVENTS;
use crate::exit::{Exit, Failure, Outcome};
use crate::page::harmless;
use crate::profile::build::{self, By};
use crate::profile::load::Loaded;
use crate::profile::{load, page};
use crate::reading::select;
use crate::shown::Shown;
use crate::terminal;

#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise profile cap                      by area, by exit, hottest symbols
  haltwise profile cap --vm web-1           one VM only
  haltwise profile cap --exit EPT_VIOLATION only samples of this exit
  haltwise profile cap --by thread          vm, vcpu, thread, area, exit, ...
  haltwise profile cap --folded - | ...     folded stacks for other tools

The capture must contain samples: record it with `haltwise record --profile
997hz`. With `--exits` each sample has the exit that was being handled.

Exits with 5 if the capture is truncated or damaged, or if events were lost.")]
pub(crate) struct Arguments {
    /// Capture directory, written by `haltwise record --profile`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print only the table by this [default: all tables]
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Only this VM, by a name, UUID, VMID or PID [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    /// Only samples of this exit, by name as printed [default: all]
    #[arg(long, value_name = "NAME")]
    exit: Option<String>,
    /// Only samples of this event [default: the first recorded]
    #[arg(long, value_name = "EVENT", hide_possible_values = true, value_parser = EVENTS)]
    event: Option<Event>,
    /// Write folded stacks to FILE (`-`: stdout), one per line:
    /// `VM;thread;...;function samples`
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let loaded = load::load(&arguments.dir, |recording| {
        let selector = arguments.vm.as_deref();
        let vms = select::vms(&recording.roster, selector)?;
        Ok(selector.map(|_| vms))
    })?;
    let event = loaded.event(arguments.event)?;
    let exit = arguments.exit.as_deref();
    let Some(mut view) = build::build(&loaded, event, arguments.by.unwrap_or(By::Vm), exit) else {
        let exit = harmless(exit.unwrap_or_default());
        let error = anyhow!("no sample of this capture belongs to the exit `{exit}`");
        return Err(Failure::new(Exit::Usage, error)
            .hint("`haltwise profile DIR --by exit` lists those it has"));
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
        let document = |top| page::document(&view, arguments.by, top);
        arguments.shown.print(&view, document)?;
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
    let tree = tree_of(arguments, loaded, event);
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

fn tree_of(arguments: &Arguments, loaded: &Loaded, event: Event) -> Node {
    let naming = loaded.naming();
    let wanted = |site: &Site| {
        let exit = arguments.exit.as_deref();
        exit.is_none_or(|exit| site.exit.name(&loaded.reasons).eq_ignore_ascii_case(exit))
    };
    let sites = loaded.account.sites(event);
    let sites = sites.filter(|(site, _): &(&Site, &Sum)| wanted(site));
    tree::tree(sites, &naming)
}
