//! Which setting of KVM's module parameters serves recorded halts best.
//!
//! Every setting that the kernel can be given is looked at on a grid, then around the best; the first
//! part of a capture chooses, the rest judges. The result is a recommendation with an interval,
//! or the word to leave everything as it is.
//!
//! | module | holds |
//! |---|---|
//! | [`inputs`] | the halts of a capture, vCPU by vCPU, cut into the part that fits and the parts that judge |
//! | [`gather`] | how they come there, in one pass over the capture |
//! | [`pool`] | how work is distributed to the threads of the caller; this crate has none |
//! | [`candidates`] | the settings that can be reached, and their neighbours |
//! | [`wall`] | the time in which halts happened, and polling as a share of it |
//! | [`stage`] | many settings on all halts, block by block |
//! | [`search`] | the grid, and the refinement around the best of it |
//! | [`pareto`] | settings that no other beats in both polling and latency |
//! | [`doubt`] | whether a gain outlives unrecorded facts: wake-ups of a calibration, and how timers follow |
//! | [`final_round`] | settings that are played on the whole capture, from both starts and under each doubt |
//! | [`advice`] | one recommendation for a goal, and why others were not taken |
//! | [`caps`] | what a ceiling for each VM of its own would add |
//! | [`figures`] | finalists and policies of any kind, with all figures that a page shows |
//! | [`guest`] | the same question for the governor of a guest |
//! | [`whatif`] | a grid of settings with their figures, for a page |
//! | [`counted`] | the same question where only histograms were kept: answers with bounds |
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
