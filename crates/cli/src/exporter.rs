//! Measurements for Prometheus: `haltwise metrics` and the pilot show them by the same module.
//!
//! | file | holds |
//! |---|---|
//! | [`figures`] | the metrics, declared, and the page of them |
//! | [`watched`] | running totals of every VM, and the metrics of them |
//! | [`server`] | where to listen, requests, and connections: few, small and short |
//! | [`serving`] | the text and what it costs, served, in a file, and beside a command's own work |

pub(crate) mod figures;
pub(crate) mod server;
pub(crate) mod serving;
pub(crate) mod watched;

#[cfg(test)]
mod test;
