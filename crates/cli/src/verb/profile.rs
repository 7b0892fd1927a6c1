//! `haltwise profile DIR`: where the threads of VMMs spent their time.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use haltwise_core::profile::tree::{self, Node};
use haltwise_core::profile::{Event, account::Site, share::Sum};

use super::report::wanted;
use crate::exit::{Exit, Failure, Outcome};
use crate::page::harmless;
use crate::profile::load::Loaded;
use crate::profile::text::{Options, Table};
use crate::profile::{build, csv, load, speedscope, svg, text};
use crate::record::event;
use crate::terminal::{self, Width};

/// Arguments of `haltwise profile`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise profile cap                      by area, by exit, hottest symbols
  haltwise profile cap --vm web-1           of one VM
  haltwise profile cap --exit EPT_VIOLATION what handling those is busy with
  haltwise profile cap --by thread          vm, vcpu, thread, area, exit, ...
  haltwise profile cap --svg flame.svg      a flame graph, for any browser
  haltwise profile cap --folded - | ...     folded stacks, for other tools

The capture must hold samples: `haltwise record --profile 997hz` takes them, and
with `--exits` each is told with the exit that was being handled.

Exits with 5 if the capture was cut or damaged, or if events were lost.")]
pub(crate) struct Arguments {
    /// The capture: a directory that `haltwise record --profile` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// One table only, by this [default: the whole page]
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Only this VM: its name, or the number of its VMM's process [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    /// Only samples of this exit, by its name on the page [default: all]
    #[arg(long, value_name = "NAME")]
    exit: Option<String>,
    /// Samples of this event [default: the first that was recorded]
    #[arg(long, value_name = "EVENT", value_parser = event)]
    event: Option<Event>,
    /// Every row [default: the first 15 of each table]
    #[arg(long)]
    all: bool,
    /// Write stacks to FILE (`-`: stdout), one a line: `VM;thread;...;function samples`
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// Write a file for speedscope.app to FILE (`-`: stdout)
    #[arg(long, value_name = "FILE")]
    speedscope: Option<PathBuf>,
    /// Write a flame graph to FILE (`-`: stdout)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the table as CSV instead of text
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON (schema 1, see docs/profile-json.md) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// By what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Vm,
    Vcpu,
    Thread,
    Area,
    Exit,
    Symbol,
    Module,
}

/// Rows of a table on a screen.
const ROWS: usize = 15;

/// Shows them.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let loaded = load::load(&arguments.dir, |recording| {
        let selector = arguments.vm.as_deref();
        let vms = wanted(&recording.roster, selector)?;
        Ok(selector.map(|_| vms))
    })?;
    let event = loaded.event(arguments.event)?;
    let (by, table) = match arguments.by {
        None => (build::By::Vm, Table::Page),
        Some(By::Vm) => (build::By::Vm, Table::Groups),
        Some(By::Vcpu) => (build::By::Vcpu, Table::Groups),
        Some(By::Thread) => (build::By::Thread, Table::Groups),
        Some(By::Module) => (build::By::Module, Table::Groups),
        Some(By::Area) => (build::By::Vm, Table::Areas),
        Some(By::Exit) => (build::By::Vm, Table::Exits),
        Some(By::Symbol) => (build::By::Vm, Table::Symbols),
    };
    let exit = arguments.exit.as_deref();
    let Some(view) = build::build(&loaded, event, by, exit) else {
        let exit = harmless(exit.unwrap_or_default());
        let error = anyhow!("no sample of this capture belongs to the exit `{exit}`");
        return Err(Failure::new(Exit::Usage, error)
            .hint("`haltwise profile DIR --by exit` lists those it has"));
    };
    let printed = exports(arguments, &loaded, event)?;
    if !printed {
        let page = if arguments.json {
            terminal::json(&view)?
        } else if arguments.csv {
            csv::render(&view, table)
        } else {
            text::render(
                &view,
                Options {
                    width: arguments.width.columns(),
                    table,
                    rows: if arguments.all { usize::MAX } else { ROWS },
                },
            )
        };
        terminal::print(&page)?;
    }
    let partial = view.recording.lost > 0 || loaded.recording.is_partial();
    Ok(if partial { Exit::Partial } else { Exit::Done })
}

/// Writes the files that were asked for; whether one of them went to stdout, in the page's place.
fn exports(arguments: &Arguments, loaded: &Loaded, event: Event) -> Result<bool, Failure> {
    let wanted = [&arguments.folded, &arguments.speedscope, &arguments.svg];
    let files = wanted.iter().filter_map(|file| file.as_deref());
    let to_stdout = files.filter(|file| is_stdout(file)).count();
    if to_stdout > 1 || (to_stdout > 0 && (arguments.json || arguments.csv)) {
        let error = anyhow!(
            "write to stdout: more than one of --folded, --speedscope, --svg, --json and --csv would"
        );
        return Err(Failure::new(Exit::Usage, error).hint("name a file for all but one"));
    }
    if wanted.iter().all(|file| file.is_none()) {
        return Ok(false);
    }
    let tree = tree_of(arguments, loaded, event);
    if let Some(file) = &arguments.folded {
        let lines = tree::folded(&tree);
        let text = lines
            .iter()
            .map(|line| line.clone() + "\n")
            .collect::<String>();
        write(file, &text)?;
    }
    let dir = arguments.dir.display().to_string();
    if let Some(file) = &arguments.speedscope {
        let value = speedscope::render(&tree, event, &dir);
        write(file, &(serde_json::to_string(&value)? + "\n"))?;
    }
    if let Some(file) = &arguments.svg {
        let title = format!("{event} of {}", loaded.recording.hostname);
        let subtitle = format!(
            "{} samples at {} Hz, {}",
            tree.all.samples, loaded.recorded.hz, dir
        );
        let about = svg::About {
            title: &title,
            subtitle: &subtitle,
        };
        write(file, &svg::render(&tree, about))?;
    }
    Ok(to_stdout > 0)
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

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    if is_stdout(file) {
        return terminal::print(text);
    }
    std::fs::write(file, text)
        .with_context(|| format!("write {}", file.display()))
        .map_err(Failure::from)
}
