//! Tests of the capture from the outside: through its public interface and its files.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod ahead;
mod common;
mod damage;
mod document;
mod edited;
mod facts;
mod flips;
mod read;
mod repair;
mod round_trip;
mod size;
mod survival;
