//! `haltwise explain DIR`: what a capture shows that can be put right, and how.

use std::path::PathBuf;

use super::report::wanted;
use crate::exit::{Exit, Outcome};
use crate::explain::{load, text, view};
use crate::terminal::{self, Width};

/// Arguments of `haltwise explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise explain cap                 what stands out, the largest gain first
  haltwise explain cap --vm web-1      one VM only, by name
  haltwise explain cap --json | jq -r '.findings[] | [.rule, .remedy] | @tsv'

Rules about exits need `haltwise record --exits`, some of them
`--exits=msr,pio,mmio`. Rules that lack data are listed as not judged.

Exits with 5 if the capture was cut or damaged, or if events were lost.")]
pub(crate) struct Arguments {
    /// The capture: a directory that `haltwise record` or `import` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Only this VM: its name, or the number of its VMM's process [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    /// Print JSON (schema 1, see docs/explain-json.md) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Explains.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let loaded = load::load(&arguments.dir)?;
    let vms = wanted(&loaded.recording.roster, arguments.vm.as_deref())?;
    let view = view::view(&loaded, &vms);
    let page = if arguments.json {
        terminal::json(&view)?
    } else {
        text::render(&view, arguments.width.columns())
    };
    terminal::print(&page)?;
    let partial = view.recording.lost > 0 || loaded.recording.is_partial();
    Ok(if partial { Exit::Partial } else { Exit::Done })
}
