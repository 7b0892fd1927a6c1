//! What a ledger of predictions comes to: how often a measurement fell within its prediction, and by how much they
//! differ ([`summary`]), and the same on a page ([`text`]). The file itself is [`crate::proof::ledger`]'s.

pub(crate) mod summary;
pub(crate) mod text;

use std::path::Path;

use serde::Serialize;

use self::summary::Summary;
use crate::exit::{Exit, Failure, Outcome};
use crate::proof::ledger::entry::Entry;
use crate::proof::ledger::{file, usual_place};
use crate::terminal;

/// Version of the JSON that `haltwise ledger` prints. In 1, inconclusive proofs were in the accuracy.
const OUTPUT_SCHEMA: u32 = 2;

/// All that a ledger says.
#[derive(Debug, Serialize)]
struct Ledger {
    schema: u32,
    /// The file.
    path: String,
    /// Lines that are no proof: cut short by a crash, or of a newer haltwise.
    unread: usize,
    summary: Summary,
    entries: Vec<Entry>,
}

/// How good the predictions of a ledger were.
pub(crate) fn summary_of(path: &Path) -> Result<Summary, Failure> {
    Ok(Summary::of(&file::read(path)?.entries))
}

/// Lists and sums up.
pub(crate) fn show(path: Option<&Path>, json: bool, width: usize) -> Outcome {
    let usual = usual_place();
    let Some(path) = path.or(usual.as_deref()) else {
        let error = anyhow::anyhow!("find the ledger: neither XDG_STATE_HOME nor HOME is set");
        return Err(Failure::new(Exit::Usage, error).hint("name it: --ledger FILE"));
    };
    let file::Lines { entries, unread } = file::read(path)?;
    let ledger = Ledger {
        schema: OUTPUT_SCHEMA,
        path: path.display().to_string(),
        unread,
        summary: Summary::of(&entries),
        entries,
    };
    terminal::show(json, &ledger, |ledger| text::render(ledger, width))?;
    Ok(if ledger.unread > 0 {
        Exit::Partial
    } else {
        Exit::Done
    })
}

#[cfg(test)]
mod test;
