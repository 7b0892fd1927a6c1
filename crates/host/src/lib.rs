//! # haltwise-host: the only library that knows Linux
//!
//! It reads what the kernel says about halts and hands it on as facts ([`haltwise_core::event`]).
//! It judges nothing and prints nothing.
//!
//! | module | holds |
//! |---|---|
//! | [`collector`] | what every rung offers: drain facts, stop, tell who was seen |
#![deny(unsafe_code)]

pub mod collector;
