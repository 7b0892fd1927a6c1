//! What `haltwise tune` says beside the recommendation itself, which is [`crate::recommend`]'s: [`text`] lays it
//! out, [`plot`] draws it, [`plan`] makes a plan of it.

pub(crate) mod plan;
mod plot;
pub(crate) mod text;
