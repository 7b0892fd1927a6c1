//! # haltwise-experiments: the effects that the sources report, each repeated on VMs of the lab

pub mod device;
pub mod exitless_timer;
#[macro_use]
pub mod experiment;
#[doc(hidden)]
pub mod fuzz;
pub mod guest;
pub mod host_thread;
mod proposal;
pub mod render;
