//! Which setting serves each VM now, decided from what its halts cost, all the time.
//!
//! Pure: readings and facts in, decisions out. It reads no clock and changes nothing; the caller does both, and
//! reports the result. It gets counts of each VM every ten seconds, and three seconds of full facts of one VM in turn.
//!
//! [`engine`] is its three parts, in this order. `target` holds what is known of each target meanwhile.
//!
//! | part | what goes in and what comes out | modules |
//! |---|---|---|
//! | observe | readings, counts and full facts; the settings in force, who has set them, and what looks say | [`input`], `observed`, `member` and its `view` of the load, [`evidence`] and [`replayed`], `engine::observe` |
//! | decide | what was observed and what is remembered; a decision with its reason | [`guards`], `trial`, `budget`, `engine::decide` |
//! | act | a decision; its change, and what comes of it | [`decision`], `engine::act` |
//!
//! [`memory`] is what is kept over a restart, [`standing`] what is shown.
//!
//! **What it acts on.** The lower end of a gain, less what nine in ten predictions are off by, has to be worth a change
//! (`tune`'s 2 %), and in the time for which the phase may go on it has to exceed what a trial takes. The smallest
//! change that keeps most of the gain is taken. Then it is tried in drawn periods, and kept only if they agree.

mod budget;
pub mod decision;
pub mod engine;
pub mod evidence;
pub mod guards;
pub mod input;
mod member;
pub mod memory;
mod observed;
pub mod replayed;
pub mod standing;
mod target;
mod trial;
mod view;

pub use engine::{Pilot, Setup};
pub use input::{Goal, GoalOfVms, Goals, Limits, Parameters};
