//! The answer in ten seconds: what polling costs here, what other settings would save and do to latency, what else
//! stands out, and the commands that follow. It says what `report` and `tune` say, of one capture.
//! [`view`] holds the figures, [`build`] computes them, [`page`] lays them out.

pub(crate) mod build;
pub(crate) mod page;
pub(crate) mod view;
