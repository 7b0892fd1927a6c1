//! Summary of a ledger of predictions: how often a measurement fell within its prediction, and by how much they
//! differ ([`summary`]), and the summary as shown ([`page`]). The file itself is [`crate::proof::ledger`]'s.

pub(crate) mod page;
pub(crate) mod summary;

use std::path::Path;

use haltwise_document::figures;
use haltwise_host::root::Root;

use self::summary::Summary;
use crate::exit::{Exit, Failure, Outcome};
use crate::proof::ledger::entry::Entry;
use crate::proof::ledger::{file, place};
use crate::shown::Shown;

/// Version of the JSON that `haltwise prove --history` prints. In 1, inconclusive proofs were in the accuracy.
const OUTPUT_SCHEMA: u32 = 2;

pub(crate) const ABOUT: &[&str] = &[
    "In schema 1, inconclusive proofs were in the accuracy; this is schema 2.",
    "What is counted and why, and the file itself: [the ledger](ledger.md).",
];

figures! {
    pub(crate) struct Ledger {
        /// Version of this layout: 2.
        schema: u32 = Number,
        /// The file.
        path: String = Name,
        /// Lines that are no proof: cut short by a crash, or of a newer haltwise.
        unread: usize = Count,
        /// How accurate predictions were.
        summary: Summary = Record(Summary::FIGURES),
        /// The lines of the file.
        entries: Vec<Entry> = List(Entry::FIGURES),
    }
}

pub(crate) fn summary_of(path: &Path) -> Result<Summary, Failure> {
    Ok(Summary::of(&file::read(path)?.entries))
}

/// Reads a ledger: this one, or that of the user.
pub(crate) fn read(path: Option<&Path>) -> Result<Ledger, Failure> {
    let usual = place(&Root::host());
    let Some(path) = path.or(usual.as_deref()) else {
        let error = anyhow::anyhow!("find the ledger: neither XDG_STATE_HOME nor HOME is set");
        return Err(Failure::new(Exit::Usage, error).hint("name it: --ledger FILE"));
    };
    let file::Lines { entries, unread } = file::read(path)?;
    Ok(Ledger {
        schema: OUTPUT_SCHEMA,
        path: path.display().to_string(),
        unread,
        summary: Summary::of(&entries),
        entries,
    })
}

impl Ledger {
    pub(crate) fn print(&mut self, shown: &Shown) -> Outcome {
        shown.sort(&mut [&mut self.entries])?;
        shown.print(self, |top| page::document(self, top))?;
        Ok(Exit::of_partial(self.unread > 0))
    }
}

#[cfg(test)]
mod test;
