//! Whether two captures differ: figure by figure, with intervals, and nothing called a difference that
//! chance makes.
//!
//! A capture's time is cut into [`block::BLOCKS`] equal blocks. A figure is computed of the whole, and
//! again without each block (jackknife): how much it moves says how far it can be trusted. That serves rates, means and
//! percentiles alike, and holds as much of an hour as of a minute in memory.
//!
//! **What holds.** Of two captures of one process, any figure at all is called different in at most 5 of
//! 100 comparisons: Holm's correction over all figures of all VMs and causes. Simulated in the tests,
//! with loads whose moods last up to some blocks. Moods of a quarter of the capture are more than it can
//! know: in the same simulation 16 of 100 then name a figure. A longer capture has longer blocks.
//!
//! **What does not.** Two captures are two times. What a host does otherwise at another time is a
//! difference between them whatever was set, and no interval from within them knows of it. `prove`
//! measures two settings in turn for that reason.

pub mod block;
pub mod figure;
pub mod judge;

#[cfg(test)]
mod test;
