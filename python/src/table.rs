//! A table of a capture: what gives its rows by the Arrow C stream interface.

use std::ffi::CStr;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use haltwise_capture::capture::Capture;
use haltwise_capture::table;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::refusal::exception;

/// The name by which Arrow's consumers know a stream.
const STREAM: &CStr = c"arrow_array_stream";

/// The same of a schema.
const SCHEMA: &CStr = c"arrow_schema";

/// A table of a capture. Anything that takes Arrow streams reads it: pyarrow, Polars, DuckDB, pandas.
#[pyclass(frozen, module = "haltwise")]
#[derive(Debug)]
pub(crate) struct Table {
    capture: Capture,
    table: table::Table,
}

impl Table {
    pub(crate) fn new(capture: &Capture, table: table::Table) -> Self {
        Self {
            capture: capture.clone(),
            table,
        }
    }
}

#[pymethods]
impl Table {
    /// Its name.
    #[getter]
    fn name(&self) -> &'static str {
        self.table.as_str()
    }

    /// Rows by its file; None if that cannot be read. Rows that no recording can hold are left out when it is read.
    #[getter]
    fn num_rows(&self) -> Option<u64> {
        self.capture.rows(self.table)
    }

    /// Names of its columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<&'static str> {
        let columns = self.table.columns().iter();
        columns.map(|column| column.name).collect()
    }

    /// What each column holds, by name.
    #[getter]
    fn meanings(&self) -> std::collections::BTreeMap<&'static str, &'static str> {
        let columns = self.table.columns().iter();
        columns
            .map(|column| (column.name, column.meaning))
            .collect()
    }

    /// The rows as an Arrow stream; each call reads the table anew. A consumer may ask for another schema, which the
    /// protocol lets a producer ignore.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = py.detach(|| self.capture.record_batches(self.table));
        let batches = batches.map_err(|error| exception(haltwise::answer::refusal(error)))?;
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, STREAM)
    }

    /// The schema alone.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.table.arrow_schema().as_ref())
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    fn __repr__(&self) -> String {
        let rows = self
            .num_rows()
            .map_or("?".to_owned(), |rows| rows.to_string());
        format!("<haltwise.Table {}: {rows} rows>", self.table)
    }
}
