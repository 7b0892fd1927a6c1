//! Opening a capture: what to say when that fails.

use haltwise_capture::error::CaptureReadError;

use crate::exit::{Exit, Failure};

/// A capture that cannot be read, with what to do about it.
pub(crate) fn explain(error: CaptureReadError) -> Failure {
    let hint = match &error {
        CaptureReadError::NotACapture { .. } => {
            Some("`haltwise record -o DIR` makes a capture; DIR is what is wanted here")
        }
        CaptureReadError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Some("is the directory's name right?")
        }
        CaptureReadError::NewerSchema { .. } => {
            Some("the capture is fine; read it with the haltwise that wrote it, or a newer one")
        }
        CaptureReadError::Io { .. } => None,
        _ => Some("the file was cut or changed after it was written; the other tables may be read"),
    };
    let denied = matches!(&error, CaptureReadError::Io { source, .. }
        if source.kind() == std::io::ErrorKind::PermissionDenied);
    let exit = if denied { Exit::Denied } else { Exit::Failed };
    let failure = Failure::new(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
