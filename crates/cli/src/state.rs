//! Files that are kept with a host beside the settings: the ledger of proofs, the price of a sleep.

use std::path::{Path, PathBuf};

use haltwise_host::root::Root;

/// Where root keeps them, below a root.
const OF_ROOT: &str = "var/lib/haltwise";

/// Where a file of this name lies: for root in a place of the system, else in the user's state. `None` where there is no
/// home.
pub(crate) fn place(root: &Root, name: &str) -> Option<PathBuf> {
    if !root.is_host() || rustix::process::geteuid().is_root() {
        return Some(root.path(Path::new(OF_ROOT).join(name)));
    }
    let absolute = |name| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("haltwise").join(name))
}
