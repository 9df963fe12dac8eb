//! An open trace.

use std::path::PathBuf;

use memtap_arrow::{Scan, TraceTable, TraceTables};
use pyo3::exceptions::{PyAttributeError, PyKeyError};
use pyo3::prelude::*;

use crate::error::raised;
use crate::table::Table;

/// An open trace, whose tables are read where they lie.
#[pyclass(module = "memtap", frozen)]
pub(crate) struct Trace {
    tables: TraceTables,
}

/// Where a trace is.
#[derive(IntoPyObject)]
enum Place {
    File(PathBuf),
    Address(String),
}

#[pymethods]
impl Trace {
    /// Opens a trace. Files that its names come from are looked for in the directories `symbols`, too.
    #[new]
    #[pyo3(signature = (path, *, symbols=Vec::new()))]
    fn new(py: Python<'_>, path: PathBuf, symbols: Vec<PathBuf>) -> PyResult<Self> {
        let tables = py.detach(|| TraceTables::open(&path, &symbols)).map_err(|error| raised(&error))?;
        Ok(Self { tables })
    }

    /// The file, or the address of the object: as a path that would lose a slash.
    #[getter]
    fn path(&self) -> Place {
        match self.tables.address() {
            Some(address) => Place::Address(address.to_owned()),
            None => Place::File(self.tables.path().to_owned()),
        }
    }

    /// The names of its tables.
    #[getter]
    fn tables(&self) -> Vec<&'static str> {
        TraceTable::ALL.map(TraceTable::name).to_vec()
    }

    /// Whether the recording came to its end.
    #[getter]
    fn closed(&self) -> bool {
        self.tables.session().trace().closed()
    }

    /// What is missing of the recording and of what was read so far, a line each.
    fn problems(&self) -> Vec<String> {
        self.tables.problems().words
    }

    /// How many rows a table has, where that is known without reading it.
    fn rows(&self, table: &str) -> PyResult<Option<u64>> {
        Ok(self.tables.rows(table_named(table)?))
    }

    fn __getitem__(&self, name: &str) -> PyResult<Table> {
        Ok(Table::new(self.tables.clone(), Scan::of(table_named(name)?)))
    }

    fn __getattr__(&self, name: &str) -> PyResult<Table> {
        self.__getitem__(name).map_err(|_| {
            PyAttributeError::new_err(format!("a trace has no {name}; its tables are {}", all_names()))
        })
    }

    fn __repr__(&self) -> String {
        let path = self.tables.path().display();
        format!("<memtap.Trace {path}: {} accesses>", self.tables.session().accesses())
    }
}

fn all_names() -> String {
    TraceTable::ALL.map(TraceTable::name).join(", ")
}

fn table_named(name: &str) -> PyResult<TraceTable> {
    TraceTable::from_name(name)
        .ok_or_else(|| PyKeyError::new_err(format!("there is no table {name}; there are {}", all_names())))
}
