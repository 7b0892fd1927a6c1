//! # haltwise-lab: a VMM small enough to read in an hour
//!
//! It boots guests of a few instructions on real KVM, wakes them in a known rhythm, counts what they
//! did, and says so exactly. It knows nothing of tracing: a tool that watches a lab VM from outside
//! must come to the same numbers on its own.

pub mod bell;
pub mod calibrate;
pub mod clock;
pub mod drive;
pub mod event;
pub mod exit;
#[doc(hidden)]
pub mod fuzz;
pub mod guest;
pub mod guest_poll;
pub mod halt_loop;
pub mod ioctl;
pub mod load;
pub mod memory;
pub mod outcome;
pub mod program;
pub mod render;
pub mod routing;
pub mod run;
pub mod running;
pub mod stats_fd;
pub mod tally;
pub mod tsc;
pub mod vcpu;
pub mod vm;
