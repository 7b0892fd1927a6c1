//! What `haltwise doctor` says: which rungs this host allows, the settings in force and whom they
//! bind, the VMs that run and whether their halts can be seen, and what to do about the rest.
//!
//! [`examine`] asks the host, [`view`] holds the answers, [`text`] lays them out.

pub(crate) mod examine;
pub(crate) mod text;
pub(crate) mod view;

/// Version of the JSON of `doctor --json`.
pub(crate) const SCHEMA: u32 = 1;
