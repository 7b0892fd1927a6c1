//! Settings of a made-up host: what is set, refused, and left behind when it is cut off.

mod ceilings;
pub(super) mod fault;
mod guests;
mod laws;
mod steps;
mod vmm;
mod world;
