//! A capture that was opened, with the tables that grow with time alone and not with halts: these are read once,
//! when a caller first asks, and kept.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use haltwise_capture::capture::Capture;
use haltwise_capture::error::CaptureReadError;
use haltwise_capture::info::CaptureInfo;
use haltwise_capture::rows::Rows;
use haltwise_core::event::{HostSample, IdleState, Knob, Lost};

use super::place::Place;
use crate::exit::{Exit, Failure};

pub(crate) type Broken = Arc<CaptureReadError>;

#[derive(Debug)]
pub(crate) struct Opened {
    capture: Capture,
    /// After the capture: its files go with it where they are temporary.
    place: Place,
    knobs: OnceCell<Kept<Knob>>,
    lost: OnceCell<Kept<Lost>>,
    host_samples: OnceCell<Kept<HostSample>>,
    idle_states: OnceCell<Kept<IdleState>>,
}

/// The rows of a table up to the first that cannot be read, and why that cannot.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) broken: Option<Broken>,
}

impl<T> Kept<T> {
    fn read(rows: Result<Rows<T>, CaptureReadError>) -> Self {
        let mut kept = Self {
            rows: Vec::new(),
            broken: None,
        };
        let read = rows.and_then(|rows| {
            for row in rows {
                kept.rows.push(row?);
            }
            Ok(())
        });
        kept.broken = read.err().map(Arc::new);
        kept
    }
}

impl Opened {
    /// Opens a capture; `-` is an archive on stdin.
    pub(crate) fn open(named: &Path) -> Result<Self, Failure> {
        let place = Place::of(named)?;
        Ok(Self {
            capture: Capture::open(place.path()).map_err(explain)?,
            place,
            knobs: OnceCell::new(),
            lost: OnceCell::new(),
            host_samples: OnceCell::new(),
            idle_states: OnceCell::new(),
        })
    }

    pub(crate) fn named(&self) -> &Path {
        self.place.named()
    }

    pub(crate) fn capture(&self) -> &Capture {
        &self.capture
    }

    pub(crate) fn info(&self) -> &CaptureInfo {
        self.capture.info()
    }

    /// Refuses a capture of a guest's own idle CPUs, for what only KVM's halts tell.
    pub(crate) fn must_be_of_host(&self, what: &str) -> Result<(), Failure> {
        if self.info().side.is_host() {
            return Ok(());
        }
        let error = anyhow!(
            "{what} is for captures of a host, and this one is of a guest's own idle CPUs (record --guest)"
        );
        Err(Failure::new(Exit::Unsupported, error)
            .hint("report, verify, tune, top and diff read it"))
    }

    pub(crate) fn knobs(&self) -> &Kept<Knob> {
        self.knobs.get_or_init(|| Kept::read(self.capture.knobs()))
    }

    pub(crate) fn lost(&self) -> &Kept<Lost> {
        self.lost.get_or_init(|| Kept::read(self.capture.lost()))
    }

    pub(crate) fn host_samples(&self) -> &Kept<HostSample> {
        let read = || Kept::read(self.capture.host_samples());
        self.host_samples.get_or_init(read)
    }

    pub(crate) fn idle_states(&self) -> &Kept<IdleState> {
        let read = || Kept::read(self.capture.idle_states());
        self.idle_states.get_or_init(read)
    }

    /// Events lost, by place: the totals if the recording has ended, else the losses noted so far; none where
    /// these cannot be read.
    pub(crate) fn lost_by_place(&self) -> BTreeMap<String, u64> {
        let info = self.info();
        if info.ended.is_some() {
            return info.lost.clone();
        }
        let mut places = BTreeMap::<String, u64>::new();
        let lost = self.lost();
        if lost.broken.is_none() {
            for Lost { count, place, .. } in &lost.rows {
                let sum = places.entry(place.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        places
    }
}

pub(crate) fn explain(error: CaptureReadError) -> Failure {
    explain_shared(&Broken::new(error))
}

pub(crate) fn explain_shared(broken: &Broken) -> Failure {
    let (exit, hint) = about(broken);
    Failure {
        hint: hint.map(str::to_owned),
        ..Failure::new(exit, Broken::clone(broken))
    }
}

pub(crate) fn in_a_line(broken: &Broken) -> String {
    format!("{:#}", anyhow::Error::new(Broken::clone(broken)))
}

fn about(error: &CaptureReadError) -> (Exit, Option<&'static str>) {
    let hint = match error {
        CaptureReadError::NotACapture { .. } => {
            Some("`haltwise record -o DIR` makes a capture; DIR is what is wanted here")
        }
        CaptureReadError::Ring { .. } => {
            Some("name one of its segments: DIR/segment-NNNNNN is a capture")
        }
        CaptureReadError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Some("is the directory's name right?")
        }
        CaptureReadError::NewerSchema { .. } => {
            Some("the capture is fine; read it with the haltwise that wrote it, or a newer one")
        }
        CaptureReadError::Io { .. } => None,
        CaptureReadError::Json { .. } | CaptureReadError::Info { .. } => Some(
            "capture.json was cut or changed after it was written; other programs may read the tables",
        ),
        _ => Some(
            "the file was cut or changed after it was written; `haltwise check --repair` keeps what can be read of it",
        ),
    };
    let exit = match error {
        CaptureReadError::Io { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Exit::Denied
        }
        CaptureReadError::NotACapture { .. }
        | CaptureReadError::Ring { .. }
        | CaptureReadError::Io { .. }
        | CaptureReadError::NewerSchema { .. } => Exit::Failed,
        _ => Exit::Partial,
    };
    (exit, hint)
}
