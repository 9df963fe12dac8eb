//! memtap for Python: the tables of `memtap-arrow` behind the Arrow PyCapsule interface, so that polars, pandas, pyarrow, duckdb and
//! whatever else reads Arrow takes them without a copy of its own.
//!
//! This library knows how to open a trace and how to read a table; what is only Python - recording, the analyses, the source for
//! polars - stands beside it in `memtap/`. Threads read ahead without Python's lock ([`memtap_arrow::TraceStream`]).

mod batch;
mod error;
mod table;
mod trace;

use pyo3::prelude::*;

/// What a program does to its memory, as Arrow tables.
#[pymodule]
mod _memtap {
    #[pymodule_export]
    use crate::batch::{Batch, Batches};
    #[pymodule_export]
    use crate::error::MemtapError;
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::trace::Trace;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("TABLES_VERSION", memtap_arrow::TABLES_VERSION)?;
        module.add("TABLES", memtap_arrow::TraceTable::ALL.map(memtap_arrow::TraceTable::name).to_vec())
    }
}
