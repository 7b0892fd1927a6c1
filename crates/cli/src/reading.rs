//! Reading a capture: what every verb that takes one shares. No table is read more than twice.

pub(crate) mod given;
pub(crate) mod load;
pub(crate) mod opened;
pub(crate) mod pass;
pub(crate) mod place;
pub(crate) mod recording;
pub(crate) mod rule;
pub(crate) mod select;
