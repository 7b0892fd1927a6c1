//! What is found out from a capture once it is complete, and kept in its `capture.json`.

use std::path::Path;

use haltwise_core::verify::carried::Carried;

use crate::capture::Capture;
use crate::error::CaptureWriteError;
use crate::files::Directory;
use crate::info::State;
use crate::recording::write_info;

/// Keeps which changes of later kernels the recorded one carries. A capture that is not complete is left as
/// it is: its halts are not all there.
pub fn keep_carried(directory: &Path, carried: Carried) -> Result<(), CaptureWriteError> {
    let mut info = Capture::open_one(directory)?.info().clone();
    if info.state != State::Complete {
        return Ok(());
    }
    let ours = Directory::open(directory).map_err(|source| CaptureWriteError::Io {
        act: "write",
        path: directory.to_owned(),
        source,
    })?;
    info.carried = Some(carried);
    write_info(&ours, &info)
}
