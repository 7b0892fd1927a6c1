//! Form of a result. A figure is declared once ([`figures!`]: name, unit, meaning), a [`Document`] says
//! what is shown, and there is one renderer for each medium.
//!
//! | module | holds |
//! |---|---|
//! | [`figure`] | figures, their units, the macro that declares them |
//! | [`block`] | documents: headings, prose, facts, tables, bars, notes; untrusted text |
//! | [`table`] | tables of declared figures |
//! | [`text`], [`html`] | documents and tables for each medium |
//! | [`openmetrics`] | figures as metrics for Prometheus |
//! | [`schema`] | JSON Schema and the page of documentation of declared figures |
//! | [`number`], [`page`], [`chart`] | numbers, lines and bars of text |
//!
//! Text from an external source (names of VMs, paths, errors of parsers) is [`Untrusted`]; renderers make it
//! harmless, no caller has to. This crate does no I/O and depends on nothing of ours.
#![forbid(unsafe_code)]

pub mod block;
pub mod chart;
pub mod figure;
pub mod html;
pub mod number;
pub mod openmetrics;
pub mod page;
pub mod schema;
pub mod table;
pub mod text;

pub use block::{Document, Prose, Untrusted};
pub use figure::{Figure, Figures, Unit};
pub use table::{Rows, Sortable, Table};

#[cfg(test)]
mod test;
