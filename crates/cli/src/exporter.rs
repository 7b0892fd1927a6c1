//! Measurements for Prometheus: `haltwise metrics` and the pilot show them by the same module.
//!
//! | file | holds |
//! |---|---|
//! | [`figures`] | the metrics, declared |
//! | [`listed`] | the page of them |
//! | [`watched`] | running totals of every VM, and the metrics of them |
//! | [`histogram`] | histograms in buckets |
//! | [`exposition`] | who adds metrics, rendered; what that costs |
//! | [`address`] | where to listen: loopback or a unix socket |
//! | [`request`] | one request, and what it is answered |
//! | [`server`] | connections: few, small and short |
//! | [`serving`] | address, file and systemd, beside a command's own work |
//! | [`textfile`] | the same text as a file for node_exporter |

pub(crate) mod address;
pub(crate) mod exposition;
pub(crate) mod figures;
mod histogram;
pub(crate) mod listed;
mod request;
mod server;
pub(crate) mod serving;
mod textfile;
pub(crate) mod watched;

#[cfg(test)]
mod published;
#[cfg(test)]
mod test;
