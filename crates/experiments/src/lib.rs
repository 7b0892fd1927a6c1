//! # haltwise-experiments: the effects that the sources report, each repeated on VMs of the lab
//!
//! | module | holds |
//! |---|---|
//! | [`experiment`] | what is compared, how it is measured and judged |
//! | [`device`] | devices to lift out, and the VM that they are tried in |
//! | [`guest`] | the guests of the devices |
//! | [`exitless_timer`] | a timer that a guest arms without an exit, and its agent |
//! | `proposal` | rules of 2015 that no kernel has |
//! | [`resctrl`] | classes of cache and memory bandwidth for threads |
//! | [`render`] | findings as Markdown |

pub mod device;
pub mod exitless_timer;
#[macro_use]
pub mod experiment;
#[doc(hidden)]
pub mod fuzz;
pub mod guest;
mod host_thread;
mod proposal;
pub mod render;
pub mod resctrl;
mod vcpu_counts;
