//! A directory that is there whole or not at all.
//!
//! A capture is written next to its place, under a name that no reader takes for a capture, and takes its
//! place by a single renaming. An import that was killed leaves that other directory behind.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::CaptureWriteError;
use crate::files::directory;

#[derive(Debug)]
pub(super) struct Directory {
    output: PathBuf,
    pub(super) temporary: PathBuf,
    settled: bool,
}

impl Directory {
    /// Looks whether `output` can be made: it must not exist, or be an empty directory.
    pub(super) fn find(output: &Path) -> Result<Self, CaptureWriteError> {
        let failed = || CaptureWriteError::io("write", output);
        if !directory::is_unused(output).map_err(failed())? {
            let path = output.to_owned();
            return Err(CaptureWriteError::NotEmpty { path });
        }
        let name = output
            .file_name()
            .ok_or_else(|| failed()(io::ErrorKind::InvalidInput.into()))?;
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".import-{}", std::process::id()));
        Ok(Self {
            temporary: output.with_file_name(temporary),
            output: output.to_owned(),
            settled: false,
        })
    }

    pub(super) fn settle(mut self) -> Result<PathBuf, CaptureWriteError> {
        let renamed = directory::rename(&self.temporary, &self.output);
        renamed.map_err(CaptureWriteError::io("give its place to", &self.output))?;
        self.settled = true;
        Ok(self.output.clone())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.settled {
            // It may never have been made; and the first error is the one that matters.
            drop(directory::remove_all(&self.temporary));
        }
    }
}
