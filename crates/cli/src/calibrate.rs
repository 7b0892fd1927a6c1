//! Cost of sleeping and waking on this host: measured by two threads, corrected by a capture.

pub(crate) mod page;
pub(crate) mod recorded;
