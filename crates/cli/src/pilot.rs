//! The pilot: decides which setting serves each VM, all the time, and shows that it helps.
//!
//! | file | holds |
//! |---|---|
//! | [`config`] | its configuration file |
//! | [`run`] | the loop: reads, collects, decides, sets, says |
//! | [`machine`] | readings of the host, its VMs, their ceilings and the journal |
//! | [`collecting`] | full facts of some VMs, when they are wanted |
//! | [`acting`] | a change, through the journal |
//! | [`say`] | decisions as lines of a log, the state as figures |
//!
//! The pilot's reports on itself are in [`crate::pilot_state`].

mod acting;
mod ceilings;
mod collecting;
pub(crate) mod config;
mod machine;
pub(crate) mod run;
mod say;
