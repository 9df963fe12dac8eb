//! A table of a trace, or what is left of it when rows and columns are left out.

use std::ops::Range;

use memref::ThreadId;
use memtap_arrow::{ArrowStream, BatchOrder, Scan, TraceTables};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::batch::{Batches, schema_capsule, stream_capsule};
use crate::error::raised;

/// A table of a trace. Nothing is read before somebody takes its rows.
#[pyclass(module = "memtap", frozen)]
pub(crate) struct Table {
    tables: TraceTables,
    scan: Scan,
}

impl Table {
    pub(crate) fn new(tables: TraceTables, scan: Scan) -> Self {
        Self { tables, scan }
    }

    /// The names of all its columns, whether it gives them or not.
    fn all(&self) -> Vec<&'static str> {
        self.scan.table.columns().iter().map(|column| column.name).collect()
    }

    fn project(&self, names: &[String]) -> PyResult<Vec<usize>> {
        let all = self.all();
        let place = |name: &String| {
            all.iter().position(|column| column == name).ok_or_else(|| {
                let table = self.scan.table.name();
                PyKeyError::new_err(format!("{table} has no column {name}; it has {}", all.join(", ")))
            })
        };
        names.iter().map(place).collect()
    }

    fn stream(&self, is_ordered: bool) -> PyResult<memtap_arrow::TraceStream> {
        let order = if is_ordered { BatchOrder::AsRecorded } else { BatchOrder::Any };
        self.tables.stream(&self.scan, order).map_err(|error| raised(&error))
    }
}

/// The rows that a call wants.
struct Conditions {
    ranges: [(&'static str, Option<(u64, u64)>); 3],
    threads: Option<Vec<u32>>,
    kinds: Option<Vec<String>>,
}

impl Conditions {
    fn apply(&self, scan: &mut Scan) -> PyResult<()> {
        let table = scan.table.name();
        let is_none = self.ranges.iter().all(|(_, range)| range.is_none()) && self.threads.is_none();
        if !is_none && !scan.can_leave_out() {
            return Err(PyValueError::new_err(format!(
                "{table} is read whole: only accesses, allocations and syncs have cycles, addresses, instructions and threads"
            )));
        }
        for (column, range) in &self.ranges {
            if let Some((from, to)) = range {
                scan.keep_numbers(column, &Range { start: *from, end: *to });
            }
        }
        if let Some(threads) = &self.threads {
            scan.keep_threads(threads.iter().copied().map(ThreadId));
        }
        if let Some(kinds) = &self.kinds {
            let names: Vec<&str> = kinds.iter().map(String::as_str).collect();
            if !scan.keep_kinds(&names) {
                return Err(PyValueError::new_err(format!(
                    "kinds are those of accesses: load, store, modify, prefetch; not {} of {table}",
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }
}

#[pymethods]
impl Table {
    /// Its name, as in docs/tables.md.
    #[getter]
    fn name(&self) -> &'static str {
        self.scan.table.name()
    }

    /// The names of the columns that it gives.
    #[getter]
    fn columns(&self) -> PyResult<Vec<String>> {
        let schema = self.scan.schema().map_err(|error| raised(&error))?;
        Ok(schema.fields().iter().map(|field| field.name().clone()).collect())
    }

    /// The same table with fewer columns and rows, or with columns that have to be named. Ranges are pairs of numbers, the second of
    /// which is no part of it.
    #[pyo3(signature = (columns=None, *, cycles=None, addresses=None, instructions=None, threads=None, kinds=None, batch_rows=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn scan(
        &self,
        columns: Option<Vec<String>>,
        cycles: Option<(u64, u64)>,
        addresses: Option<(u64, u64)>,
        instructions: Option<(u64, u64)>,
        threads: Option<Vec<u32>>,
        kinds: Option<Vec<String>>,
        batch_rows: Option<usize>,
    ) -> PyResult<Self> {
        let mut scan = self.scan.clone();
        if let Some(columns) = columns {
            scan.projection = Some(self.project(&columns)?);
        }
        if let Some(rows) = batch_rows {
            scan.batch_rows = rows.max(1);
        }
        let ranges = [("cycle", cycles), ("addr", addresses), ("ip", instructions)];
        Conditions { ranges, threads, kinds }.apply(&mut scan)?;
        Ok(Self::new(self.tables.clone(), scan))
    }

    /// Its batches, one by one. Where their order does not matter each core reads.
    #[pyo3(signature = (*, ordered=true))]
    fn batches(&self, ordered: bool) -> PyResult<Batches> {
        Ok(Batches::new(self.stream(ordered)?))
    }

    fn __iter__(&self) -> PyResult<Batches> {
        self.batches(true)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &*self.scan.schema().map_err(|error| raised(&error))?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Who asks for other types casts what comes, as the interface allows.
        let _ = requested_schema;
        stream_capsule(py, Box::new(ArrowStream(self.stream(true)?)))
    }

    fn __repr__(&self) -> PyResult<String> {
        let columns = self.columns()?.join(", ");
        Ok(format!("<memtap.Table {} of {}: {columns}>", self.name(), self.tables.path().display()))
    }
}
