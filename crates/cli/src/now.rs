//! The answer in ten seconds: what polling costs here, what other settings would save and do to latency, what else
//! stands out, and the commands that follow. It says what `report` and `tune` say, of one capture.
//!
//! | file | holds |
//! |---|---|
//! | [`view`] | the figures |
//! | [`build`] | from a capture to the figures |
//! | [`page`] | the figures on a screen |
//! | [`usage`] | which VMs take CPU time |
//! | [`outside`] | what is known without the right to record |

pub(crate) mod build;
pub(crate) mod outside;
pub(crate) mod page;
pub(crate) mod usage;
pub(crate) mod view;
