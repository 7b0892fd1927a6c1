//! The page for a browser: the same document, as one file without a script.

use std::path::Path;

use anyhow::Context;
use haltwise_capture::files::output::{self, Readers};
use haltwise_document::html;
use haltwise_document::html::markup::{Markup, el};

use super::page;
use super::view::FleetResult;
use crate::exit::Failure;
use crate::webpage;
use crate::words::plural;

const ROWS: usize = 200;

/// Writes the file; gives its size in bytes.
pub(crate) fn write(result: &FleetResult, path: &Path) -> Result<usize, Failure> {
    let text = render(result);
    output::write(path, text.as_bytes(), Readers::Umask)
        .with_context(|| format!("write {}", path.display()))?;
    Ok(text.len())
}

fn render(result: &FleetResult) -> String {
    let hosts = plural(result.read.hosts as u64, "host");
    let title = format!("haltwise fleet: {hosts}");
    let header = el("header").with(el("h1").with(title.as_str()));
    let main = el("main").with(el("section").with(html::render(&page::document(result, ROWS))));
    let footer = el("footer").with(
        el("p").with(
            format!(
                "haltwise {}. Made from {} alone; this file asks for nothing from any network.",
                env!("CARGO_PKG_VERSION"),
                plural(result.read.tables as u64, "costs table"),
            )
            .as_str(),
        ),
    );
    webpage::still(&title, Markup::none().and(header).and(main).and(footer))
}
