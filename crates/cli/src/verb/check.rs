//! `haltwise check DIR`: whether a capture is whole.

use std::path::PathBuf;

use haltwise_capture::check;

use crate::exit::{Exit, Outcome};
use crate::integrity::text;
use crate::integrity::view::Check;
use crate::reading::open::explain;
use crate::reading::place::Place;
use crate::terminal::{self, Width};

/// Arguments of `haltwise check`.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Check a capture for damage

Every file is read from end to end and compared with its checksums. What is \
damaged is listed with its file and offset.",
    after_help = "EXAMPLES
  haltwise check cap                 which files are whole
  haltwise check cap --json          the same for programs
  haltwise check cap || haltwise repair cap -o whole    repair if need be

Exits with 0 if everything that was recorded is there, and with 5 if the
capture was cut or a file is damaged, missing or rewritten."
)]
pub(crate) struct Arguments {
    /// The capture: a directory that `haltwise record` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print JSON (schema 1, see docs/check-json.md) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Checks it.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let place = Place::of(&arguments.dir)?;
    let found = check::check(place.path()).map_err(explain)?;
    let view = Check::new(&arguments.dir, &found);
    let width = arguments.width.columns();
    terminal::show(arguments.json, &view, |view| text::check(view, width))?;
    Ok(if view.whole {
        Exit::Done
    } else {
        Exit::Partial
    })
}
