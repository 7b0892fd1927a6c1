//! `haltwise report --profile DIR`: where the threads of VMMs spent their time.

use std::path::Path;

use anyhow::{Context, anyhow};
use haltwise_capture::files::output::{self, Readers};
use haltwise_core::profile::tree;
use haltwise_core::profile::{Event, account::Site};

use crate::exit::{Exit, Failure, Outcome};
use crate::page::harmless;
use crate::profile::load::Loaded;
use crate::profile::view::{self, By};
use crate::profile::{load, page};
use crate::terminal;

use super::{Arguments, key};

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let by = key(arguments.by.as_deref())?;
    let loaded = load::load(arguments.dir()?, arguments.vm.as_deref())?;
    let event = loaded.event(arguments.event)?;
    let exit = arguments.exit.as_deref();
    let Some(mut view) = view::build(&loaded, event, by.unwrap_or(By::Vm), exit) else {
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
            .print(&view, |top| page::document(&view, by, top))?;
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
