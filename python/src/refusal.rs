//! Errors: those of the program, as the exceptions that `haltwise/errors.py` defines.

use haltwise::answer::Refusal;
use pyo3::prelude::*;

/// The exception for a refusal: its class by the exit code, with the error, the code and the hint.
pub(crate) fn exception(refusal: Refusal) -> PyErr {
    Python::attach(|py| {
        let made = py
            .import("haltwise.errors")
            .and_then(|errors| errors.getattr("exception_of"))
            .and_then(|make| make.call1((refusal.exit, refusal.error, refusal.hint)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}
