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
//! | [`rows`] | the rows of a table: [`rows::Rows`] |
//! | [`convert`] | from streams to Parquet, also of a capture that was cut |
//! | [`import`] | recordings of other tools as captures |
//! | [`info`] | `capture.json` |
//! | [`table`] | the tables, their files and columns |
//! | [`note`] | what a reader must know about a damaged capture |
//! | [`error`] | what can go wrong |
//! | [`contain`] | panics of decoders become errors |
//!
//! Private: `tables` (facts to columns and back), `columns` (checked access), `stream` (writing a
//! stream), `frames` and `batches` (reading one), `parquet_form` (the Parquet encoding), `footer` and
//! `pages` (checked by `thrift` before they are decoded), `files`.
#![forbid(unsafe_code)]

mod batches;
pub mod capture;
mod columns;
pub mod contain;
pub mod convert;
pub mod error;
mod files;
mod footer;
mod frames;
#[doc(hidden)]
pub mod fuzz;
pub mod import;
pub mod info;
pub mod note;
mod pages;
mod parquet_form;
pub mod recording;
pub mod rows;
mod stream;
pub mod table;
mod tables;
mod thrift;
