//! Collecting from this host: what the verbs that record share.
//!
//! | file | holds |
//! |---|---|
//! | [`recording`] | a capture: attach, drain, write, and end cleanly whatever happens |
//! | [`attach`] | which source, which VMs, and what to say where none works |
//! | [`exits`] | exits beside the halts: what was asked for, and what of it this host can |
//! | [`profile`] | samples beside the halts: how often, of what |
//! | [`watching`] | the source of what watches and keeps no capture |
//! | [`interrupt`] | SIGINT, SIGTERM, SIGHUP |

pub(crate) mod attach;
pub(crate) mod exits;
pub(crate) mod interrupt;
pub(crate) mod profile;
pub(crate) mod recording;
pub(crate) mod watching;
