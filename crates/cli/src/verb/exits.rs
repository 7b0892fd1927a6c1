//! `haltwise exits DIR`: what made the guests of a capture exit, and what that cost.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::ValueEnum;
use haltwise_core::exit::account;

use super::report::wanted;
use crate::exit::{Exit, Failure, Outcome};
use crate::exits::build::{self, Wanted};
use crate::exits::text::{Options, Table};
use crate::exits::{csv, load, text};
use crate::page::harmless;
use crate::terminal::{self, Width};

/// Arguments of `haltwise exits`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
#[command(after_help = "EXAMPLES
  haltwise exits cap                        by reason, the dearest first
  haltwise exits cap --by vm                by VM, vcpu or second
  haltwise exits cap --sub                  by MSR, port, page and so on
  haltwise exits cap --reason MSR_WRITE --sub    which MSRs those were
  haltwise exits cap --csv > exits.csv      for a spreadsheet

The capture must hold exits: `haltwise record --exits` records them, and with
`--exits=msr,pio,...` what they were about.

Exits with 5 if the capture was cut or damaged, or if events were lost.")]
pub(crate) struct Arguments {
    /// The capture: a directory that `haltwise record --exits` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// By what exits are told apart
    #[arg(long, value_enum, default_value_t = By::Reason)]
    by: By,
    /// Only this reason, by its name or number [default: all]
    #[arg(long, value_name = "NAME", conflicts_with = "by")]
    reason: Option<String>,
    /// What the exits were about, in place of their reasons
    #[arg(long, conflicts_with = "by")]
    sub: bool,
    /// Only this VM: its name, or the number of its VMM's process [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    /// Every row [default: the first 20 of each table]
    #[arg(long)]
    all: bool,
    /// Print the table as CSV instead of text
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON (schema 1, see docs/exits-json.md) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
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

/// Rows of a table on a screen.
const ROWS: usize = 20;

/// Shows them.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let loaded = load::load(&arguments.dir, arguments.by.into(), |recording| {
        let selector = arguments.vm.as_deref();
        let vms = wanted(&recording.roster, selector)?;
        Ok(selector.map(|_| vms))
    })?;
    let reason = arguments.reason.as_deref();
    let groups = arguments.by != By::Reason;
    let Some(view) = build::build(&loaded, Wanted { reason, groups }) else {
        let reason = harmless(reason.unwrap_or_default());
        let error = anyhow!("no exit of this capture has the reason `{reason}`");
        return Err(Failure::new(Exit::Usage, error)
            .hint("`haltwise exits DIR` without --reason lists those it has"));
    };
    let table = match (arguments.sub, groups) {
        (true, _) => Table::Subs,
        (_, true) => Table::Groups,
        _ => Table::Reasons,
    };
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
    let partial = view.recording.lost > 0 || loaded.recording.is_partial();
    Ok(if partial { Exit::Partial } else { Exit::Done })
}
