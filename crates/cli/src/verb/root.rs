//! Where the verbs that set parameters, or show them, find the machine.

use std::path::PathBuf;

use haltwise_host::knob::Fault;
use haltwise_host::root::Root;

/// The machine, or a directory instead.
pub(super) fn root(directory: Option<PathBuf>) -> Root {
    directory.map_or_else(Root::host, Root::at)
}

/// Where a test wants it to end.
pub(super) fn fault(before: Option<u64>) -> Option<Fault> {
    before.map(|before| Fault::Kill { before })
}
