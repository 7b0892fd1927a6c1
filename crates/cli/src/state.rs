//! Files that are kept with a host beside the settings: the ledger of proofs, the price of a sleep.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use haltwise_host::root::Root;

/// The machine whose settings a verb shows or changes.
#[derive(Debug, clap::Args)]
pub(crate) struct GivenRoot {
    /// Directory that holds /sys, /proc, /etc and /var, to try it out
    #[arg(long, value_name = "DIR", default_value = "/",
          value_parser = PathBufValueParser::new().map(Root::at))]
    root: Root,
}

impl Deref for GivenRoot {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.root
    }
}

/// A command that shows or changes the settings of this root.
pub(crate) fn command(root: &Root, verb: &str) -> String {
    if root.is_host() {
        return format!("haltwise {verb}");
    }
    let base = root.path("").display().to_string();
    format!("haltwise {verb} --root {}", base.trim_end_matches('/'))
}

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
