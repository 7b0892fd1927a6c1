//! Findings from a complete capture, kept in its `capture.json`.

use std::path::Path;

use haltwise_core::verify::carried::Carried;

use crate::capture::info_of;
use crate::error::CaptureWriteError;
use crate::files::Directory;
use crate::files::directory::DirectoryId;
use crate::info::{FILE, State};
use crate::recording::write_info;

/// Keeps which changes of later kernels the recorded one carries, where the path still leads to what was recorded. A
/// capture that is not complete is left as it is: its halts are not all there.
pub fn keep_carried(
    directory: &Path,
    recorded: DirectoryId,
    carried: Carried,
) -> Result<(), CaptureWriteError> {
    let io = |act| CaptureWriteError::io(act, directory);
    let ours = Directory::open(directory).map_err(io("write"))?;
    if ours.id() != recorded {
        let path = directory.to_owned();
        return Err(CaptureWriteError::Removed { path });
    }
    let file = ours.read(FILE).map_err(io("read"))?;
    let (mut info, _) = info_of(&file, directory.join(FILE), FILE)?;
    if info.state != State::Complete {
        return Ok(());
    }
    info.carried = Some(carried);
    write_info(&ours, &info)
}
