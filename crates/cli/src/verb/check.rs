//! `haltwise check DIR`: whether a capture is whole, and a finished capture of one that was cut or damaged.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use haltwise_capture::check::{self, Checkup};
use haltwise_capture::convert::convert;
use haltwise_capture::error::CaptureWriteError;
use haltwise_capture::info::State;
use haltwise_capture::info::Summary;
use haltwise_capture::repair::repair;

use crate::exit::{Exit, Failure, Outcome};
use crate::integrity::{self as page, CheckedCapture, RepairedCapture};
use crate::reading::opened::explain;
use crate::reading::place::Place;
use crate::shown::Shown;

#[derive(Debug, clap::Args)]
#[command(
    about = "Check a capture for damage, and repair it",
    long_about = "Check a capture for damage, and repair it

Every file is read from end to end and compared with its checksums. What is \
damaged is listed with its file and offset. With --repair, all that can be read \
goes into a new capture, also what lies behind damage; what is left out is listed, \
and recorded in the new capture, and the old one is not changed.",
    after_long_help = "EXAMPLES
  haltwise check cap                 which files are whole
  haltwise check cap --json          the same for programs
  haltwise check cap --repair whole  a new capture of what can be read
  haltwise check cap --finish        finish a recording that was killed

Exits with 0 if everything that was recorded is there, and with 5 if the
capture was cut or a file is damaged, missing or rewritten; after a repair, if
something was left out."
)]
pub(crate) struct Arguments {
    /// The capture: a directory that `haltwise record` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Write a finished capture of what can be read; NEW must not exist yet, or be empty
    #[arg(long, value_name = "NEW", conflicts_with = "finish")]
    repair: Option<PathBuf>,
    /// Finish DIR itself: only if it was cut and nothing in it is damaged
    #[arg(long)]
    finish: bool,
    #[command(flatten)]
    shown: Shown,
}

impl Arguments {
    pub(crate) fn only_reads(&self) -> bool {
        !self.finish && self.repair.is_none()
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let place = Place::of(&arguments.dir)?;
    let found = check::check(place.path()).map_err(explain)?;
    if !arguments.only_reads() {
        return repaired(arguments, &place, &found);
    }
    let mut view = CheckedCapture::new(&arguments.dir, &found);
    let shown = &arguments.shown;
    shown.sort(&mut [&mut view.tables])?;
    shown.print(&view, |top| page::check(&view, top))?;
    Ok(Exit::of_partial(!view.whole))
}

fn repaired(arguments: &Arguments, place: &Place, found: &Checkup) -> Outcome {
    let dir = place.path();
    let made = match &arguments.repair {
        Some(output) => repair(dir, output).map_err(failure)?,
        None if place.named() != dir => {
            let error = anyhow!(
                "finish {}: --finish takes a directory",
                place.named().display()
            );
            return Err(Failure::new(Exit::Usage, error).hint("name a new directory: --repair NEW"));
        }
        None => finish(dir, found)?,
    };
    let mut view = RepairedCapture::new(place.named(), found, &made);
    let shown = &arguments.shown;
    shown.sort(&mut [&mut view.tables])?;
    shown.print(&view, |top| page::repair(&view, top))?;
    Ok(Exit::of_partial(!view.left_out.is_empty()))
}

fn finish(dir: &Path, found: &Checkup) -> Result<Summary, Failure> {
    let refused = |what: &str| {
        let error = anyhow!("finish {}: {what}", dir.display());
        Failure::new(Exit::Failed, error)
    };
    if !found.is_undamaged() {
        return Err(
            refused("parts of it are damaged, and it would replace the only copy of them")
                .hint("name a new directory: --repair NEW"),
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
