//! Tables: those of a capture, and costs tables. They give their rows by the Arrow C stream interface.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::path::PathBuf;

use arrow_array::RecordBatchReader;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use haltwise_capture::arrow::RecordBatches;
use haltwise_capture::capture::Capture;
use haltwise_capture::costs;
use haltwise_capture::table::{self, Column};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::refusal::exception;
use haltwise::answer::{self, Refusal};

/// The name by which Arrow's consumers know a stream.
const STREAM: &CStr = c"arrow_array_stream";

/// The same of a schema.
const SCHEMA: &CStr = c"arrow_schema";

/// A table of a capture, or of costs. Anything that takes Arrow streams reads it: pyarrow, Polars, DuckDB, pandas.
#[pyclass(frozen, module = "haltwise")]
#[derive(Debug)]
pub(crate) struct Table(Source);

#[derive(Debug)]
enum Source {
    Capture(Box<Capture>, table::Table),
    Costs(PathBuf),
}

impl Table {
    /// A table of a capture.
    pub(crate) fn of_capture(capture: &Capture, table: table::Table) -> Self {
        Self(Source::Capture(Box::new(capture.clone()), table))
    }

    fn columns(&self) -> &'static [Column] {
        match &self.0 {
            Source::Capture(_, table) => table.columns(),
            Source::Costs(_) => costs::COLUMNS,
        }
    }

    fn batches(&self) -> Result<RecordBatches, Refusal> {
        match &self.0 {
            Source::Capture(capture, table) => {
                let batches = capture.record_batches(*table);
                batches.map_err(answer::refusal)
            }
            Source::Costs(path) => answer::costs_table(path),
        }
    }
}

#[pymethods]
impl Table {
    /// The costs table of a file.
    #[staticmethod]
    fn of_costs(path: PathBuf) -> Self {
        Self(Source::Costs(path))
    }

    #[getter]
    fn name(&self) -> &'static str {
        match &self.0 {
            Source::Capture(_, table) => table.as_str(),
            Source::Costs(_) => "costs",
        }
    }

    /// Rows by its file; None if that is not known before it is read. Rows that no recording can hold are left out then.
    #[getter]
    fn num_rows(&self) -> Option<u64> {
        match &self.0 {
            Source::Capture(capture, table) => capture.rows(*table),
            Source::Costs(_) => None,
        }
    }

    #[getter]
    fn column_names(&self) -> Vec<&'static str> {
        self.columns().iter().map(|column| column.name).collect()
    }

    /// Meaning of each column, by name.
    #[getter]
    fn meanings(&self) -> BTreeMap<&'static str, &'static str> {
        let columns = self.columns().iter();
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
        let batches = py.detach(|| self.batches()).map_err(exception)?;
        let stream = FFI_ArrowArrayStream::new(batches);
        PyCapsule::new_with_value(py, stream, STREAM)
    }

    /// The rows as a data frame of pandas; needs pandas and pyarrow.
    fn to_pandas<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let arrow = this.py().import("pyarrow")?;
        arrow
            .call_method1("table", (this,))?
            .call_method0("to_pandas")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = match &self.0 {
            Source::Capture(_, table) => table.arrow_schema(),
            Source::Costs(_) => self.batches().map_err(exception)?.schema(),
        };
        let schema = FFI_ArrowSchema::try_from(schema.as_ref())
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    fn __repr__(&self) -> String {
        let rows = self.num_rows();
        let rows = rows.map_or(String::new(), |rows| format!(": {rows} rows"));
        format!("<haltwise.Table {}{rows}>", self.name())
    }
}

/// Columns of a costs table, and what each is.
#[pyfunction]
pub(crate) fn costs_columns() -> Vec<(&'static str, &'static str)> {
    let columns = costs::COLUMNS.iter();
    columns
        .map(|column| (column.name, column.kind.as_str()))
        .collect()
}
