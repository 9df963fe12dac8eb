//! Errors that occur while a table is read.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace can't be read, or a tool that counts it fails.
    #[error(transparent)]
    Analysis(#[from] analysis::Error),
    /// The columns don't make a batch.
    #[error("the columns of a batch do not fit its schema: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// A projection names a column that the table does not have.
    #[error("the table {table} has {columns} columns, there is none with the number {column}")]
    NoColumn {
        /// The table.
        table: &'static str,
        /// How many it has.
        columns: usize,
        /// The number asked for, from 0.
        column: usize,
    },
}

impl From<trace_format::Error> for Error {
    fn from(error: trace_format::Error) -> Self {
        Self::Analysis(error.into())
    }
}
