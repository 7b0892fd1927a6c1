//! Output of `haltwise status --check`: which sources this host allows, the settings in force and which VMs they
//! bind, the VMs that run and whether their halts can be seen, and what to do about the rest.
//!
//! [`view`] declares the figures and asks the host for them, [`page`] shows them.

pub(crate) mod page;
pub(crate) mod view;

pub(crate) const SCHEMA: u32 = 1;
