//! The kinds of rows that a table can have, and a row.

use super::made::MadeBlock;
use crate::layout::TypeConflict;
use crate::{Count, Owner};

/// What the rows of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// A static variable, or one heap block.
    Variable,
    /// The same, with each thread's own stack split by function and local variable. Needs a trace in which stacks were recorded.
    Local,
    /// A variable's field or element, where debug information tells; of heap blocks their type's field.
    Field,
    /// A type: of heap blocks and of static variables.
    Type,
    /// A function that makes accesses.
    Function,
    /// A source line that makes accesses; where none is known the function.
    Line,
    /// A call that allocates: all its blocks together.
    Allocation,
    /// A page.
    Page,
    /// A region.
    Region,
    /// A thread.
    Thread,
}

impl By {
    /// On the command line and as a key of JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Variable => "variable",
            Self::Local => "local",
            Self::Field => "field",
            Self::Type => "type",
            Self::Function => "function",
            Self::Line => "line",
            Self::Allocation => "allocation",
            Self::Page => "page",
            Self::Region => "region",
            Self::Thread => "thread",
        }
    }
}

/// The rows of a table, and what they have together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedRows {
    /// The rows.
    pub rows: Vec<AccessRow>,
    /// All their accesses. One that several rows have, as several fields do, counts once.
    pub total: Count,
}

impl CountedRows {
    /// Of rows that share no access.
    pub fn apart(rows: Vec<AccessRow>) -> Self {
        let total = rows.iter().map(|row| row.count).sum();
        Self { rows, total }
    }
}

/// One row of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRow {
    /// What was accessed, or who accessed.
    pub name: String,
    /// The kind of memory, where the row has one.
    pub region: String,
    /// How often.
    pub count: Count,
    /// Size in bytes of what was accessed, where that is known.
    pub size: u64,
    /// How many things the row stands for: blocks of a site; else 1.
    pub things: u64,
    /// Source file and line, where the row has one: of a heap block that of the call which allocated it.
    pub line: Option<String>,
    /// Of a heap block, what the code that allocated it says.
    pub made: Option<MadeBlock>,
    /// The file name of the module it lies in; of a block that of the code which allocated it.
    pub module: String,
    /// Whose it is.
    pub owner: Owner,
    /// The name that all blocks of one call have together, `<malloc@func1+230>`, or all elements of an array.
    pub family: Option<String>,
    /// Of a stack, the threads that it belonged to, by their numbers.
    pub threads: Vec<u32>,
    /// Of heap blocks by their type: what else accesses to them take them for, most first.
    pub conflicts: Vec<TypeConflict>,
}

impl AccessRow {
    /// What tells rows with the same figures apart.
    pub(super) fn place(&self) -> (&str, &str, Option<&str>) {
        (&self.name, &self.module, self.line.as_deref())
    }

    /// The row as people call it: a heap block by its type and the line that allocated it.
    #[must_use]
    pub fn in_words(self) -> Self {
        match (&self.made, &self.line) {
            (Some(made), Some(line)) => {
                let [name, family] = made.words(line);
                Self { name, family: Some(family), ..self }
            }
            _ => self,
        }
    }
}

/// How rows are sorted: the largest first, names in alphabetical order. Equals are sorted by name, module and line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    /// Loads, stores and modifies together.
    #[default]
    Accesses,
    /// Loads.
    Loads,
    /// Stores.
    Stores,
    /// Read-modify-writes.
    Modifies,
    /// Bytes that were read or written.
    Bytes,
    /// The size of what was accessed.
    Size,
    /// How many things a row stands for.
    Things,
    /// The name.
    Name,
}

impl SortKey {
    /// What is compared; 0 for a name.
    fn of(self, row: &AccessRow) -> u64 {
        match self {
            Self::Accesses => row.count.accesses(),
            Self::Loads => row.count.loads,
            Self::Stores => row.count.stores,
            Self::Modifies => row.count.modifies,
            Self::Bytes => row.count.bytes,
            Self::Size => row.size,
            Self::Things => row.things,
            Self::Name => 0,
        }
    }

    /// Which of two rows comes first.
    pub fn order(self, a: &AccessRow, b: &AccessRow) -> std::cmp::Ordering {
        self.of(b).cmp(&self.of(a)).then_with(|| a.place().cmp(&b.place()))
    }

    /// Sorts rows.
    pub fn sort(self, rows: &mut [AccessRow]) {
        rows.sort_by(|a, b| self.order(a, b));
    }

    /// Sorts pairs by that of their counts.
    pub(super) fn of_count(self, count: &Count) -> u64 {
        self.of(&AccessRow { count: *count, ..AccessRow::default() })
    }
}

/// The rows that people see of a table: heap blocks by their types and lines, the blocks of a call and the elements of an array as one.
pub fn joined_in_words(rows: Vec<AccessRow>) -> Vec<AccessRow> {
    join_families(rows.into_iter().map(AccessRow::in_words).collect())
}

/// Joins the blocks of each call in each state to one row, if there are several, and the elements of an array. Other rows stay
/// as they are.
pub fn join_families(rows: Vec<AccessRow>) -> Vec<AccessRow> {
    let mut joined: Vec<AccessRow> = Vec::new();
    let mut place_of = std::collections::HashMap::new();
    for row in rows {
        let Some(family) = row.family.clone() else {
            joined.push(row);
            continue;
        };
        let key = (family.clone(), row.module.clone(), row.line.clone());
        match place_of.get(&key) {
            Some(&place) => {
                let whole: &mut AccessRow = &mut joined[place];
                whole.count += row.count;
                whole.size += row.size;
                whole.things += row.things;
                whole.name = family;
            }
            None => {
                place_of.insert(key, joined.len());
                joined.push(row);
            }
        }
    }
    joined
}
