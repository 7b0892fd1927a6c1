//! Collecting from this host: what the verbs that record share.

pub(crate) mod attach;
pub(crate) mod interrupt;
pub(crate) mod profile;
pub(crate) mod recording;
pub(crate) mod watching;
