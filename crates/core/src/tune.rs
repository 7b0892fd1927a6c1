//! Which setting of KVM's module parameters serves recorded halts best.
//!
//! Every setting that the kernel can be given is looked at on a grid, then around the best; the first
//! part of a capture chooses, the rest judges. The result is a recommendation with an interval,
//! or the word to leave everything as it is.
//!
//! **What a recommendation rests on.** All that a replay rests on ([`crate::replay`]), and that the
//! load stays as it was. The second is tested within the capture: what gains on its first part and not
//! on the rest is not taken. A setting that gains only if wake-ups that were never recorded are as a calibration has
//! them, or only if timers come at a fixed time where nothing shows it, is to be proved first ([`doubt`]).

pub mod advice;
pub mod candidates;
pub mod caps;
pub mod counted;
pub mod doubt;
pub mod figures;
pub mod final_round;
pub mod gather;
pub mod guest;
pub mod inputs;
pub mod pareto;
pub mod pool;
pub mod search;
pub mod stage;
pub mod wall;
pub mod whatif;

pub use advice::{Advice, Goal};
pub use gather::{Gather, Keep};
pub use inputs::{Inputs, Terms};
pub use pool::{Pool, Serial};

#[cfg(test)]
pub(crate) mod test;
