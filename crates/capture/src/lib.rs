//! # haltwise-capture: recordings on disk
//!
//! A capture is a directory: `capture.json` and one table for each kind of fact. While recording,
//! a table is an Arrow IPC stream that only grows; when the recording ends it becomes Parquet.
//! `docs/capture-format.md` describes both for readers in any language.
//!
//! [`recording`] writes one, [`convert`] ends it, [`capture`] reads it, [`check`] and [`repair`] look for damage; [`table`]
//! has the columns of all tables, [`import`] makes captures of other tools' texts, and [`costs`] has tables of what every
//! setting would cost.
#![forbid(unsafe_code)]

// The simulation shares files with the tests from the outside.
#[cfg(test)]
extern crate self as haltwise_capture;

pub mod archive;
pub mod arrow;
mod batches;
pub mod capture;
mod cells;
pub mod check;
mod columns;
pub mod contain;
pub mod convert;
pub mod costs;
pub mod error;
pub mod files;
mod footer;
mod frames;
#[doc(hidden)]
pub mod fuzz;
pub mod import;
pub mod info;
pub mod laws;
pub mod note;
mod pages;
mod parquet_form;
pub mod recording;
pub mod repair;
pub mod ring;
pub mod rows;
mod seal;
mod spare;
mod stream;
pub mod sums;
pub mod table;
mod tables;
mod thrift;
