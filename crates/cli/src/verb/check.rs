//! `haltwise check DIR`: whether a capture is whole.

use std::path::PathBuf;

use haltwise_capture::check;

use crate::exit::{Exit, Outcome};
use crate::integrity::page;
use crate::integrity::view::CheckedCapture;
use crate::reading::open::explain;
use crate::reading::place::Place;
use crate::shown::Shown;

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
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let place = Place::of(&arguments.dir)?;
    let found = check::check(place.path()).map_err(explain)?;
    let mut view = CheckedCapture::new(&arguments.dir, &found);
    let shown = &arguments.shown;
    shown.sort(&mut [&mut view.tables])?;
    let document = |top| page::check(&view, top);
    shown.print(&view, document)?;
    Ok(Exit::of_partial(!view.whole))
}
