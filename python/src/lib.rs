//! The native half of the Python package `haltwise`: captures, their tables as Arrow streams, and answers of verbs.
//!
//! It holds no logic of its own: rows come from `haltwise-capture`, results from the verbs themselves
//! ([`haltwise::answer`]). What is Python (types, errors, Spark) lies in `haltwise/`.
#![forbid(unsafe_code)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "what comes from Python is owned"
)]

mod capture;
mod refusal;
mod table;

use pyo3::prelude::*;

/// Functions and classes behind the package `haltwise`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::capture::{NativeCapture, answer, pack, unpack};
    #[pymodule_export]
    use crate::table::{Table, costs_columns};
}
