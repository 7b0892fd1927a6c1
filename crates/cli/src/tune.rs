//! Output of `haltwise tune` beside the recommendation itself, which is [`crate::recommend`]'s: [`text`] lays it
//! out, [`plan`] makes a plan of it. [`guest`] does the same for a capture of a guest.

pub(crate) mod guest;
pub(crate) mod plan;
pub(crate) mod text;
