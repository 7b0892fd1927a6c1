//! The ledger: what replay predicted and what was then measured, proof by proof, so that the tool's
//! quality has a number.

pub(crate) mod entry;
pub(crate) mod file;

use std::path::{Path, PathBuf};

use haltwise_host::root::Root;

use self::entry::Entry;
use super::Proof;
use crate::state;
use crate::terminal;

const FILE: &str = "ledger.jsonl";

/// Where the ledger of a host lies. `None` where there is no home.
pub(crate) fn place(root: &Root) -> Option<PathBuf> {
    state::place(root, FILE)
}

/// Adds a proof, and says in its result where. A ledger that cannot be written does not spoil what was
/// measured: that is said, and the result stands.
pub(crate) fn keep(path: &Path, proof: &mut Proof) {
    let Some(entry) = Entry::of(proof) else {
        return;
    };
    match file::append(path, &entry) {
        Ok(()) => proof.ledger = Some(path.display().to_string()),
        Err(error) => terminal::say(&format!(
            "warning: the ledger was not written: {error:#}\nhint: name another with --ledger FILE"
        )),
    }
}
