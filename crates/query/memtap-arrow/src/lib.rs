//! The tables of a trace as Arrow record batches, for any engine that reads these: DataFusion, Polars, DuckDB, pandas.
//!
//! A trace is read in place. Only requested columns are made, names are looked up only if a column of them is
//! requested, and frames that a filter excludes are not read. `accesses` is read in parts, which are independent of
//! each other and together have the same rows as a single scan. Tables and columns are described in docs/tables.md.
//!
//! The figures are those of `report` and `stat`: they come from the
//! same tools. SQL is left to `memtap-sql`. Start with [`TraceTables`].
#![forbid(unsafe_code)]

mod access_rows;
mod batch;
mod column;
mod error;
mod events;
mod figures;
mod in_context;
mod kept;
mod lookups;
mod metadata;
mod name_column;
mod named_blocks;
mod named_places;
mod narrow;
mod parts;
mod scan;
mod stream;
mod table;
mod tables;

pub use column::{TableColumn, ValueType};
pub use error::Error;
pub use figures::StackFunctions;
pub use lookups::{AskedAddress, Lookups, agreed};
pub use parts::{FramePlan, ScanPart};
pub use scan::Scan;
pub use stream::{ArrowStream, BatchOrder, TraceStream};
pub use table::{TABLES_VERSION, TraceTable};
pub use tables::{Problems, TraceTables};
