//! The report that people look at: one file with everything in it, for a browser.
//!
//! | file | holds |
//! |---|---|
//! | [`content`] | all that the page says, read and computed from the capture |
//! | [`sample`] | the halts that go into the file, for the timeline's single halts |
//! | [`overview`] | what vCPUs did over the whole recording, in a bounded number of steps |
//! | [`chart`] | figures as still SVG |
//! | [`section`] | one section of the page to a file |
//! | `page/` | our style and our script, included as they are |
//!
//! Everything is computed here, from the capture alone. The script lays out anew what it is given, sorts, zooms,
//! and shows the settings of a grid that core played on all halts ([`crate::recommend::whatif`]).

pub(crate) mod chart;
pub(crate) mod content;
pub(crate) mod overview;
pub(crate) mod sample;
pub(crate) mod section;

use std::path::Path;

use anyhow::Context;
use haltwise_capture::files::output::{self, Readers};
pub(crate) use haltwise_document::html::markup;

use self::content::Content;
use self::markup::short;
use crate::exit::Failure;
use crate::webpage;

/// Writes the page; gives its length in bytes.
pub(crate) fn write(content: &Content, path: &Path) -> Result<usize, Failure> {
    let host = short(&content.report.host.name);
    let data = section::data(content).context("write the page's data")?;
    let title = format!("haltwise report: {host}");
    let text = webpage::document(&title, section::all(content), &data);
    output::write(path, text.as_bytes(), Readers::Umask)
        .with_context(|| format!("write {}", path.display()))?;
    Ok(text.len())
}
