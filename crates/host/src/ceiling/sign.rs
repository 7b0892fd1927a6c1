//! How a VMM shows that it can be asked: a memfd whose name holds version and number.

use std::path::Path;

use haltwise_governor::protocol::{VERSION, read_memfd_name};

/// Version, and number of the controlling end, given what `/proc` calls a descriptor.
pub(crate) fn read(link: &Path) -> Option<(u16, i32)> {
    let name = link.to_str()?.strip_prefix("/memfd:")?;
    read_memfd_name(name.strip_suffix(" (deleted)").unwrap_or(name))
}

/// Whether a descriptor says that its VMM can be asked by this version.
pub(crate) fn is_ours(link: &Path) -> bool {
    read(link).is_some_and(|(version, _)| version == VERSION)
}
