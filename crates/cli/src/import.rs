//! Importing: open, read with progress, say what came of it.

mod explain;
mod source;
mod summary;

use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use haltwise_capture::import::{self, GivenSettings, Imported};
use haltwise_capture::info::Tool;
use haltwise_host::clock;
use serde::Serialize;

use self::source::Source;
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Outcome};
use crate::progress::Progress;
use crate::reading::rule;
use crate::terminal;

const BUFFER: usize = 1 << 20;

#[derive(Serialize)]
struct Summary {
    schema: u32,
    #[serde(flatten)]
    imported: Imported,
}

/// Imports a text, wholly or not at all.
pub(crate) fn run(
    file: &Path,
    output: &Path,
    (told, command): (GivenSettings, Vec<String>),
    json: bool,
) -> Outcome {
    let interrupt = Interrupt::watch()?;
    let source = Source::open(file, &interrupt);
    let source = source.map_err(|error| explain::opening(error, file))?;
    let size = source.size();
    let mut progress = Progress::start(None);
    let start_ns = clock::monotonic_ns();
    let tool = Tool {
        name: "haltwise".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let imported = import::import(
        BufReader::with_capacity(BUFFER, source),
        output,
        told,
        (tool, command),
        |now| {
            let elapsed = Duration::from_nanos(clock::monotonic_ns().saturating_sub(start_ns));
            progress.show(elapsed, || summary::so_far(now, size));
            match interrupt.came() {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        },
    );
    drop(progress);
    let imported = imported.map_err(|error| explain::importing(error, file, interrupt.came()))?;
    rule::keep(output, imported.id);
    for line in summary::skipped(&imported) {
        terminal::say(&line);
    }
    let is_partial = imported.skipped.values().any(|count| *count > 0);
    if json {
        terminal::print(&terminal::json(&Summary {
            schema: 1,
            imported,
        })?)?;
    } else {
        terminal::print(&summary::text(&imported))?;
    }
    Ok(Exit::of_partial(is_partial))
}
