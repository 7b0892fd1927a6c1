//! # haltwise-capture: recordings on disk
//!
//! A capture is a directory: `capture.json` and one table for each kind of fact. While recording,
//! a table is an Arrow IPC stream that only grows; when the recording ends it becomes Parquet.
//! `docs/capture-format.md` describes both for readers in any language.
//!
//! | module | holds |
//! |---|---|
//! | [`recording`] | writing: [`recording::Recording`] |
//! | [`capture`] | reading: [`capture::Capture`] |
//! | [`ring`] | a directory of captures, of which the oldest are dropped |
//! | [`rows`] | the rows of a table: [`rows::Rows`] |
//! | [`arrow`] | the same as Arrow record batches |
//! | [`convert`] | from streams to Parquet, also of a capture that was cut |
//! | [`check`] | whether a capture is whole |
//! | [`repair`] | a capture of all that can be read of a damaged one |
//! | [`costs`] | costs tables: what every setting would cost, as sums |
//! | [`import`] | recordings of other tools as captures |
//! | [`archive`] | a capture as one stream: a tar archive |
//! | [`found`] | what is found out from a complete capture, and kept in it |
//! | [`info`] | `capture.json` |
//! | [`laws`] | what every row obeys; those that do not are left out |
//! | [`table`] | the tables, their files and columns |
//! | [`sums`] | checksums of finished files |
//! | [`files`] | opening files: regular ones to read, ours to write |
//! | [`note`] | what a reader must know about a damaged capture |
//! | [`error`] | what can go wrong |
//! | [`contain`] | panics of decoders become errors |
//!
//! Private: `tables` (facts to columns and back), `columns` (checked access), `stream` (writing a
//! stream), `frames` and `batches` (reading one), `salvage` (reading on behind damage), `seal` (checksums of its frames), `parquet_form` (the Parquet encoding), `footer` and
//! `pages` (checked by `thrift` before they are decoded), `spare` (room for the last word).
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
pub mod found;
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
mod salvage;
mod seal;
mod spare;
mod stream;
pub mod sums;
pub mod table;
mod tables;
mod thrift;
