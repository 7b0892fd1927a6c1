//! `haltwise repair DIR`: a finished capture of one that was cut or damaged.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use haltwise_capture::check::{self, Checkup};
use haltwise_capture::convert::convert;
use haltwise_capture::error::CaptureWriteError;
use haltwise_capture::info::State;
use haltwise_capture::recording::Summary;
use haltwise_capture::repair::repair;

use crate::exit::{Exit, Failure, Outcome};
use crate::integrity::page;
use crate::integrity::view::RepairedCapture;
use crate::reading::open::explain;
use crate::reading::place::Place;
use crate::shown::Shown;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Make a finished capture of one that was cut or damaged

All that can be read goes into a new capture, also what lies behind damage. \
What is left out is listed, and recorded in the new capture. The old one is \
not changed.",
    after_help = "EXAMPLES
  haltwise repair cap -o whole    a new capture of what can be read
  haltwise repair cap --yes       finish a recording that was killed, in place

Exits with 5 if something was left out."
)]
pub(crate) struct Arguments {
    /// The capture: a directory that `haltwise record` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Directory to write; must not exist yet, or be empty
    #[arg(short, long, value_name = "NEW", required_unless_present = "yes")]
    output: Option<PathBuf>,
    /// Finish DIR itself: only if it was cut and nothing in it is damaged
    #[arg(long, conflicts_with = "output")]
    yes: bool,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let place = Place::of(&arguments.dir)?;
    let dir = place.path();
    let found = check::check(dir).map_err(explain)?;
    let made = match &arguments.output {
        Some(output) => repair(dir, output).map_err(failure)?,
        None if place.named() != dir => {
            let error = anyhow!(
                "repair {}: --yes repairs a directory",
                place.named().display()
            );
            return Err(Failure::new(Exit::Usage, error).hint("name a new directory: -o NEW"));
        }
        None => finish(dir, &found)?,
    };
    let mut view = RepairedCapture::new(place.named(), &found, &made);
    let shown = &arguments.shown;
    shown.sort(&mut [&mut view.tables])?;
    let document = |top| page::repair(&view, top);
    shown.print(&view, document)?;
    let is_all = view.left_out.is_empty();
    Ok(Exit::of_partial(!is_all))
}

fn finish(dir: &Path, found: &Checkup) -> Result<Summary, Failure> {
    let refused = |what: &str| {
        let error = anyhow!("repair {}: {what}", dir.display());
        Failure::new(Exit::Failed, error)
    };
    if !found.is_undamaged() {
        return Err(
            refused("parts of it are damaged, and it would replace the only copy of them")
                .hint("name a new directory: -o NEW"),
        );
    }
    if found.state == State::Complete {
        return Err(refused(
            "its recording was finished: there is nothing to repair",
        ));
    }
    convert(dir).map_err(failure)
}

fn failure(error: CaptureWriteError) -> Failure {
    match error {
        CaptureWriteError::Read(error) => explain(error),
        CaptureWriteError::StillRecording { .. } => Failure::new(Exit::Failed, error)
            .hint("end the recording first: Ctrl-C, or SIGTERM to its process; `lslocks` lists who holds a lock"),
        other => Failure::from(other),
    }
}
