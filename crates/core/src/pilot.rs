//! Which setting serves each VM now, decided from what its halts cost, all the time.
//!
//! Pure: facts in, decisions out. It reads no clock and changes nothing; whoever drives it does both.
//!
//! | module | holds |
//! |---|---|
//! | [`goals`] | what a configuration gives |

pub mod goals;

pub use goals::{Goal, GoalOfVms, Goals, Limits};
