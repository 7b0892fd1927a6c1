//! Where the verbs that set parameters, or show them, find the machine.

use std::path::PathBuf;

use haltwise_host::root::Root;

pub(super) fn root(directory: Option<PathBuf>) -> Root {
    directory.map_or_else(Root::host, Root::at)
}
