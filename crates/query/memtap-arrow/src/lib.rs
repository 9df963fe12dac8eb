//! The tables of a trace as Arrow record batches, for whatever engine reads these: DataFusion, Polars, DuckDB, pandas.
//!
//! A trace is read where it lies. Columns that are not asked for are not made, names are looked up only where a column of them is
//! asked for, and frames that a filter excludes are not read. `accesses` is read in parts, which are independent of each other and
//! give together what one reading gives. What each table and column is stands in docs/tables.md.
//!
//! The figures are those of `report` and `stat`: they come from the same tools. SQL is left to `memtap-sql`. Start with
//! [`TraceTables`].
#![forbid(unsafe_code)]

mod access_rows;
mod batch;
mod column;
mod error;
mod events;
mod figures;
mod metadata;
mod name_column;
mod narrow;
mod parts;
mod scan;
mod stream;
mod table;
mod tables;

pub use column::{TableColumn, ValueType};
pub use error::Error;
pub use parts::{FramePlan, ScanPart};
pub use scan::Scan;
pub use stream::{ArrowStream, BatchOrder, TraceStream};
pub use table::{TABLES_VERSION, TraceTable};
pub use tables::{Problems, TraceTables};
