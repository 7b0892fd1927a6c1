//! Where a capture is: a directory, or a tar archive on stdin, which is unpacked for as long as it is read.

use std::io;
use std::path::{Path, PathBuf};

use haltwise_capture::archive;
use haltwise_capture::files::{Directory, directory};
use haltwise_host::clock;

use crate::exit::{Exit, Failure};
use crate::terminal;

pub(crate) const PIPE: &str = "-";

#[derive(Debug)]
pub(crate) struct Place {
    named: PathBuf,
    path: PathBuf,
    /// Removed when it is no longer read.
    is_temporary: bool,
}

impl Place {
    /// The directory that the user named, or for `-` one to which stdin is unpacked.
    pub(crate) fn of(named: &Path) -> Result<Self, Failure> {
        if named != Path::new(PIPE) {
            return Ok(Self {
                named: named.to_owned(),
                path: named.to_owned(),
                is_temporary: false,
            });
        }
        if terminal::reads_a_terminal() {
            let error = anyhow::anyhow!("read a capture from stdin: it is a terminal");
            let hint = "`haltwise record -o - | haltwise report -`; or name a directory";
            return Err(Failure::new(Exit::Usage, error).hint(hint));
        }
        let place = Self::temporary();
        let directory = Directory::make(&place.path)
            .map_err(|error| failed(&format!("make {}", place.path.display()), error))?;
        archive::unpack(io::stdin().lock(), &directory)
            .map_err(|error| failed("read a capture from stdin", error))?;
        Ok(place)
    }

    /// A directory of our own that is not there yet.
    pub(crate) fn temporary() -> Self {
        let name = format!("haltwise-{}-{}", clock::wall_ns(), std::process::id());
        Self {
            named: PathBuf::from(PIPE),
            path: std::env::temp_dir().join(name),
            is_temporary: true,
        }
    }

    pub(crate) fn named(&self) -> &Path {
        &self.named
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_temporary
            && self.path.exists()
            && let Err(error) = directory::remove_all(&self.path)
        {
            let path = self.path.display();
            terminal::say(&format!("note: {path} could not be removed: {error}"));
        }
    }
}

fn failed(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new(
        Exit::Failed,
        anyhow::Error::new(error).context(what.to_owned()),
    )
}
