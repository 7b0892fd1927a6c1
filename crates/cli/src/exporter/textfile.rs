//! The text as a file, which the textfile collector of node_exporter reads.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use haltwise_capture::files::output::{self, Readers};
use haltwise_document::openmetrics::Format;

use super::exposition::Exposition;
use crate::exit::{Exit, Failure};
use crate::terminal;

/// How often it is written: as often as Prometheus looks, by its default.
pub(crate) const EVERY_NS: u64 = 15_000_000_000;

#[derive(Debug)]
pub(crate) struct Textfile {
    path: PathBuf,
    written_ns: Option<u64>,
    /// It was written by this program, and may be removed.
    is_ours: bool,
    has_failed: bool,
}

impl Textfile {
    /// A file of this name, which is not there yet.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let usage = |error| {
            Failure::new(Exit::Usage, error).hint(
                "node_exporter reads *.prom in the directory of --collector.textfile.directory",
            )
        };
        if path.extension().is_none_or(|end| end != "prom") {
            let error = anyhow!("{}: the name must end in .prom", path.display());
            return Err(usage(error));
        }
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let directory = std::fs::canonicalize(parent)
            .with_context(|| format!("find the directory of {}", path.display()))
            .map_err(usage)?;
        Ok(Self {
            path: directory.join(path.file_name().unwrap_or_default()),
            written_ns: None,
            is_ours: false,
            has_failed: false,
        })
    }

    pub(crate) fn directory(&self) -> Option<&Path> {
        self.path.parent()
    }

    /// Writes it if it is time: whole, or not at all. The first time must succeed; a later failure, as of a full disk,
    /// is reported once and ends nothing.
    pub(crate) fn turn(&mut self, exposition: &Exposition, now_ns: u64) -> Result<(), Failure> {
        let is_due = |at: u64| now_ns.saturating_sub(at) >= EVERY_NS;
        if !self.written_ns.is_none_or(is_due) {
            return Ok(());
        }
        self.written_ns = Some(now_ns);
        let text = exposition.render(Format::Prometheus);
        let written = output::write(&self.path, text.as_bytes(), Readers::Umask)
            .with_context(|| format!("write {}", self.path.display()));
        let has_failed = std::mem::replace(&mut self.has_failed, written.is_err());
        match written {
            Err(error) if !self.is_ours => Err(Failure::new(Exit::Failed, error)
                .hint("the directory must be writable to haltwise, and to no other user")),
            Err(error) => {
                if !has_failed {
                    terminal::say(&format!("warning: {error:#}"));
                }
                Ok(())
            }
            Ok(()) => {
                self.is_ours = true;
                Ok(())
            }
        }
    }
}

impl Drop for Textfile {
    /// Removes it: node_exporter would show the last counts for ever.
    fn drop(&mut self) {
        if self.is_ours {
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}
