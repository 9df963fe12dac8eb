//! A request to a table.

use std::collections::BTreeSet;
use std::sync::Arc;

use analysis::Session;
use arrow_schema::SchemaRef;
use memref::ThreadId;
use trace_format::Filter;

use crate::{Error, TraceTable};

/// A request to a table.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The table.
    pub table: TraceTable,
    /// The numbers of the columns that are wanted, from 0, in the order in which they are wanted; `None` for all but those that have
    /// to be named.
    pub projection: Option<Vec<usize>>,
    /// Which accesses, allocations and synchronisation events. Other tables are given whole. `addresses` asks for what touches a byte
    /// of a range, which may begin before it.
    pub filter: Filter,
    /// The threads whose accesses, allocations and synchronisation events are wanted; `None` for all.
    pub threads: Option<BTreeSet<ThreadId>>,
    /// Variables and heap blocks to which accesses are wanted, by their names in the table; `None` for all. Accesses to others may come, too.
    pub variables: Option<BTreeSet<Arc<str>>>,
    /// Rows of a batch, at most.
    pub batch_rows: usize,
}

impl Scan {
    /// Asks for all rows of a table, and all columns that need not be named.
    pub fn of(table: TraceTable) -> Self {
        Self {
            table,
            projection: None,
            filter: Filter::default(),
            threads: None,
            variables: None,
            batch_rows: 1 << 14,
        }
    }

    /// Whether it asks for all rows.
    pub fn is_all(&self) -> bool {
        self.filter == Filter::default() && self.threads.is_none() && self.variables.is_none()
    }

    /// The schema of what it gives.
    ///
    /// # Errors
    /// Where it asks for a column that there is none of.
    pub fn schema(&self) -> Result<SchemaRef, Error> {
        let schema = self.table.schema();
        let columns = schema.fields().len();
        let wanted = self.columns();
        if let Some(&column) = wanted.iter().find(|column| **column >= columns) {
            return Err(Error::NoColumn { table: self.table.name(), columns, column });
        }
        Ok(schema.project(&wanted)?.into())
    }

    /// The numbers of the columns that it gives.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let unnamed = || {
            let all = self.table.columns().iter().enumerate();
            all.filter(|(_, column)| !column.by_name_only).map(|(place, _)| place).collect()
        };
        self.projection.clone().unwrap_or_else(unnamed)
    }

    /// The threads that it reads.
    pub(crate) fn threads_of(&self, session: &Session) -> Vec<ThreadId> {
        let threads = session.trace().threads().iter().map(|record| record.thread);
        threads.filter(|thread| self.has_thread(*thread)).collect()
    }

    pub(crate) fn has_thread(&self, thread: ThreadId) -> bool {
        self.threads.as_ref().is_none_or(|threads| threads.contains(&thread))
    }
}
