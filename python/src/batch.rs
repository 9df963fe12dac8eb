//! Batches of rows, one by one.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, Schema};
use memtap_arrow::TraceStream;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::{Mutex, PoisonError};

use crate::error::raised;

/// A stream as the capsule that the Arrow PyCapsule interface names.
pub(crate) fn stream_capsule(
    py: Python<'_>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// A schema as such a capsule.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| no_arrow(&error))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

fn no_arrow(error: &ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Some rows of a table, as Arrow.
#[pyclass(module = "memtap", frozen)]
pub(crate) struct Batch {
    rows: RecordBatch,
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.rows.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, self.rows.schema_ref())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Who asks for other types casts what comes, as the interface allows.
        let _ = requested_schema;
        let one = std::iter::once(Ok(self.rows.clone()));
        stream_capsule(py, Box::new(RecordBatchIterator::new(one, self.rows.schema())))
    }
}

/// The batches of a table as they are read.
#[pyclass(module = "memtap", frozen)]
pub(crate) struct Batches {
    stream: Mutex<TraceStream>,
}

impl Batches {
    pub(crate) fn new(stream: TraceStream) -> Self {
        Self { stream: Mutex::new(stream) }
    }
}

#[pymethods]
impl Batches {
    fn __iter__(batches: PyRef<'_, Self>) -> PyRef<'_, Self> {
        batches
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let next = py.detach(|| self.stream.lock().unwrap_or_else(PoisonError::into_inner).next());
        next.transpose().map(|rows| rows.map(|rows| Batch { rows })).map_err(|error| raised(&error))
    }
}
