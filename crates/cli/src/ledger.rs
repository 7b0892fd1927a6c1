//! The ledger: what replay predicted and what was then measured, proof by proof, so that the tool's
//! honesty has a number.
//!
//! | file | holds |
//! |---|---|
//! | [`entry`] | one proof, as a line of the file |
//! | [`mod@file`] | lines added so that a crash loses at most the last, and read with suspicion |
//! | [`summary`] | how often a measurement fell within its prediction, and by how much they differ |
//! | [`text`] | the same on a page |

mod entry;
mod file;
pub(crate) mod summary;
mod text;

use std::path::{Path, PathBuf};

use serde::Serialize;

use self::entry::Entry;
use self::summary::Summary;
use crate::exit::{Exit, Failure, Outcome};
use crate::prove::view::View;
use crate::terminal;

/// Version of a line and of the JSON; documented in `docs/ledger.md`.
pub(crate) const SCHEMA: u32 = 1;

/// Where the ledger lies if nobody says otherwise: for root a place of the system, else one of the
/// user's state. `None` where there is no home.
pub(crate) fn usual_place() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/haltwise/ledger.jsonl"));
    }
    let absolute = |name| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("haltwise/ledger.jsonl"))
}

/// Adds a proof, and says in its result where. A ledger that cannot be written does not spoil what was
/// measured: that is said, and the result stands.
pub(crate) fn keep(path: &Path, view: &mut View) {
    let Some(entry) = Entry::of(view) else {
        return;
    };
    match file::append(path, &entry) {
        Ok(()) => view.ledger = Some(path.display().to_string()),
        Err(error) => terminal::say(&format!(
            "warning: the ledger was not written: {error:#}\nhint: name another with --ledger FILE, \
             or keep none with --no-ledger"
        )),
    }
}

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
        schema: SCHEMA,
        path: path.display().to_string(),
        unread,
        summary: Summary::of(&entries),
        entries,
    };
    let text = if json {
        terminal::json(&ledger)?
    } else {
        text::render(&ledger, width)
    };
    terminal::print(&text)?;
    Ok(if ledger.unread > 0 {
        Exit::Partial
    } else {
        Exit::Done
    })
}
