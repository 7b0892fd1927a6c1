//! Whether one setting is better than another: the design of the experiment, and its judgement.
//!
//! A host is never the same twice: other work comes and goes, clocks and temperatures drift. So two
//! settings are measured in turn, in *rounds*. A round holds three blocks of the same load in an order
//! that is drawn: one under A, one under B, and one more under A as the *control*. Only blocks of one
//! round are compared. The control says what the host makes of two settings that are the same.
//!
//! | module | holds |
//! |---|---|
//! | [`figure`] | what is compared: figures of a block |
//! | [`tally`] | from the halts of a block to its figures, and to those that a replay predicts |
//! | [`compare`] | rounds in a drawn order; A, B and the control, figure by figure; predictions held against them |
//! | [`setting`] | which settings a kernel can be put under |
//!
//! **What holds whatever the noise.** The order inside a round is drawn, so that under two settings that
//! are the same any difference is as likely with either sign, however the host drifts and however its
//! noise is spread. The interval stands on that alone ([`crate::stats::ranks`]): it holds zero in at least 95 of 100
//! such experiments.

pub mod compare;
pub mod figure;
pub mod setting;
pub mod tally;

#[cfg(test)]
mod test;
