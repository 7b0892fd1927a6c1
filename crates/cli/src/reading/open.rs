//! Opening a capture: what to say when that fails.

use haltwise_capture::error::CaptureReadError;

use super::opened::Broken;
use crate::exit::{Exit, Failure};

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
