//! `haltwise fleet add`: what every setting of a grid would have cost each VM of a capture, as a table that adds up with
//! those of other captures ([`haltwise_core::costs`]).

pub(crate) mod play;
pub(crate) mod view;
pub(crate) mod who;

pub(crate) const SCHEMA: u32 = 1;
