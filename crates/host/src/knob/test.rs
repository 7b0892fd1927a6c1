//! The hand over a made-up host: what it does, refuses, and leaves behind when it is cut off.

mod laws;
mod steps;
mod world;
