//! The ledger: what replay predicted and what was then measured, proof by proof, so that the tool's
//! honesty has a number.
//!
//! | file | holds |
//! |---|---|
//! | [`entry`] | one proof, as a line of the file |
//! | [`mod@file`] | lines added so that a crash loses at most the last, and read with suspicion |

pub(crate) mod entry;
pub(crate) mod file;

use std::path::{Path, PathBuf};

use haltwise_host::root::Root;

use self::entry::Entry;
use super::Proof;
use crate::terminal;

/// Where root keeps it, below a root.
const OF_ROOT: &str = "var/lib/haltwise/ledger.jsonl";

/// Where the ledger lies if nobody says otherwise: for root a place of the system, else one of the
/// user's state. `None` where there is no home.
pub(crate) fn usual_place() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(Path::new("/").join(OF_ROOT));
    }
    let absolute = |name| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("haltwise/ledger.jsonl"))
}

/// The same of a host that lies elsewhere: what root keeps there.
pub(crate) fn place(root: &Root) -> Option<PathBuf> {
    if root.is_host() {
        usual_place()
    } else {
        Some(root.path(OF_ROOT))
    }
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
