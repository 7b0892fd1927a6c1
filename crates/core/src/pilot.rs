//! Which setting serves each VM now, decided from what its halts cost, all the time.
//!
//! Pure: readings and facts in, decisions out. It reads no clock and changes nothing; the caller does both, and
//! reports the result. It gets counts of each VM every ten seconds, and three seconds of full facts of one VM in turn.
//!
//! | module | holds |
//! |---|---|
//! | [`goals`] | what a configuration gives |
//! | [`input`] | readings of the host and of its VMs |
//! | [`evidence`] | what is asked of facts |
//! | [`replayed`] | the answers, by replaying recorded halts under every setting that can be reached |
//! | `view` | decayed views of a load, which tell a phase from noise |
//! | `budget` | what looks may cost |
//! | `member`, `unit` | what is known of a VM, and where a target stands |
//! | [`guards`] | what keeps it from acting |
//! | `trial` | drawn periods under a setting and under the one before |
//! | [`errors`] | how far predictions were off, and so what a gain has to exceed |
//! | [`regret`] | what was gained and lost against the setting found |
//! | [`decision`] | an action with its reason, its expected effect and its inverse |
//! | [`memory`] | what it has to know after a restart |
//! | [`engine`] | all of it together |
//!
//! **What it acts on.** The lower end of a gain, less what nine in ten predictions are off by, has to be worth a change
//! (`tune`'s 2 %), and in the time for which the phase may go on it has to exceed what a trial takes. The smallest
//! change that keeps most of the gain is taken. Then it is tried in drawn periods, and kept only if they agree.

mod budget;
pub mod decision;
pub mod engine;
pub mod errors;
pub mod evidence;
pub mod goals;
pub mod guards;
pub mod input;
mod member;
pub mod memory;
pub mod regret;
pub mod replayed;
pub mod standing;
mod trial;
mod unit;
mod view;

pub use engine::{Pilot, Setup};
pub use goals::{Goal, GoalOfVms, Goals, Limits, Parameters};
