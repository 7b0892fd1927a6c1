//! Captures and the answers of verbs, with the interpreter's lock released while they are read.

use std::ffi::OsString;
use std::io::Cursor;
use std::path::PathBuf;

use haltwise::answer as program;
use haltwise_capture::archive;
use haltwise_capture::capture::Capture;
use haltwise_capture::files::Directory;
use haltwise_capture::table;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::refusal::exception;
use crate::table::Table;

#[pyclass(frozen, module = "haltwise", name = "NativeCapture")]
#[derive(Debug)]
pub(crate) struct NativeCapture(Capture);

#[pymethods]
impl NativeCapture {
    /// Opens a capture, or what the last recorder wrote to a ring.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| program::open(&path));
        opened.map(Self).map_err(exception)
    }

    /// Notes that a reader of the capture must know, also on rows that were left out so far.
    fn notes(&self) -> Vec<String> {
        program::notes(&self.0)
    }

    fn tables(&self) -> Vec<Table> {
        let all = table::Table::ALL.into_iter();
        let here = all.filter(|table| !table.is_optional() || self.0.rows(*table).is_some());
        here.map(|table| Table::of_capture(&self.0, table))
            .collect()
    }

    /// A table by its name, also one that this capture does not have: it has no rows.
    fn table(&self, name: &str) -> PyResult<Table> {
        let mut all = table::Table::ALL.into_iter();
        let found = all.find(|table| table.as_str() == name);
        let table = found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        Ok(Table::of_capture(&self.0, table))
    }

    /// `capture.json`, as it was read.
    fn info(&self) -> PyResult<String> {
        program::info(&self.0).map_err(exception)
    }
}

/// Has a verb answer: its JSON, its exit code, and what it said. `threads` is how many threads a search has at most; 0
/// for one for each CPU.
#[pyfunction]
#[pyo3(signature = (words, threads=0))]
pub(crate) fn answer(
    py: Python<'_>,
    words: Vec<OsString>,
    threads: usize,
) -> PyResult<(String, u8, Vec<String>)> {
    let answered = py.detach(|| program::answer(words, threads));
    let program::Answer { json, exit, said } = answered.map_err(exception)?;
    Ok((json, exit, said))
}

/// A capture as one archive.
#[pyfunction]
pub(crate) fn pack(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyBytes>> {
    let packed = py.detach(|| {
        let mut bytes = Vec::new();
        archive::pack(&path, &mut bytes).map(|()| bytes)
    });
    Ok(PyBytes::new(py, &packed?))
}

/// Unpacks an archive into a new directory.
#[pyfunction]
pub(crate) fn unpack(py: Python<'_>, packed: &[u8], path: PathBuf) -> PyResult<()> {
    py.detach(|| {
        let directory = Directory::make(&path)?;
        archive::unpack(Cursor::new(packed), &directory).map_err(std::io::Error::other)
    })?;
    Ok(())
}
