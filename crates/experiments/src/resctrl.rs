//! Classes of cache and memory bandwidth for a VM's threads: discover, assign, monitor, restore.
//!
//! The kernel's interface is a file system, resctrl (`Documentation/filesystems/resctrl.rst`): a folder is a
//! class, its `schemata` says which ways of which cache and how much bandwidth it may use, its `tasks` which
//! threads are in it, its `mon_data` what they use. Where it is mounted is a parameter; this crate
//! names no place of its own, and nothing is written unless the user has named one.
//!
//! Where the hardware has no such classes, a fake root stands in: a folder of the same shape, for which [`root`]
//! does what the kernel would do on a write. It shows that every step is taken and taken back; it isolates
//! nothing, and the code that prints figures says so ([`Root::is_kernels`]).

use std::sync::OnceLock;

pub mod classes;
pub mod root;
pub mod schemata;

pub use classes::Classes;
pub use root::Root;
pub use schemata::{Bandwidth, Cache, Found, Schemata};

static GRANTED: OnceLock<Root> = OnceLock::new();

/// Lets this process make classes in a root. The first one named counts: it is a permission, not a setting.
pub fn grant(root: Root) {
    let _ = GRANTED.set(root);
}

/// The root in which this process may make classes, if the user has named one.
pub fn granted() -> Option<&'static Root> {
    GRANTED.get()
}

#[cfg(test)]
mod test;
