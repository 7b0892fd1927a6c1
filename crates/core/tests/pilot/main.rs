//! The pilot on simulated hosts: whatever happens, no guard is broken, nothing is set that the journal does not know,
//! `undo` restores everything, regret stays within its bound, and no setting goes back and forth.
//!
//! [`laws`] holds in each world. [`fleet`] lets days pass; a fleet that breaks a law prints its seed:
//! `HALTWISE_SEED=N cargo test -p haltwise-core --test pilot` runs it alone, and `HALTWISE_DAYS=N` runs so many days
//! instead of the few of the gate. The other files are small worlds, in which one thing happens.

#![expect(
    clippy::print_stdout,
    reason = "the figures of a run are what it is for"
)]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

mod ends;
mod fleet;
mod foreign;
mod guarded;
mod laws;
mod load;
mod looks;
mod settings;
mod world;
