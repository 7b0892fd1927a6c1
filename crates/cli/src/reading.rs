//! Reading a capture: what every verb that takes one shares. No table is read more than twice.
//!
//! | file | holds |
//! |---|---|
//! | [`open`] | what to say where a capture cannot be read |
//! | [`select`] | the VMs that `--vm` means |
//! | [`load`], [`recording`] | the recording with its halt accounts, and what of it is damaged |
//! | [`place`] | a directory, or an archive on stdin |
//! | [`opened`] | a capture, with the small tables kept |
//! | [`pass`] | one pass over the large tables, for any number of those who want rows |
//! | [`calls`] | the table of calls of grow and shrink, read beside the halts |
//! | [`knobs`] | the parameters in force when it began |
//! | [`given`] | the same as a command line gives them |
//! | [`rule`] | which rule a verb means: the kernel, what it carries, its settings over time |

mod calls;
pub(crate) mod given;
pub(crate) mod knobs;
pub(crate) mod load;
pub(crate) mod open;
pub(crate) mod opened;
pub(crate) mod pass;
pub(crate) mod place;
pub(crate) mod recording;
pub(crate) mod rule;
pub(crate) mod select;
