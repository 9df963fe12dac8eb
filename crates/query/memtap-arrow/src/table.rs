//! The tables: their names, their columns, and the version of both. docs/tables.md says the same, and a test compares the two.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};

use crate::column::{TableColumn, ValueType};

/// The version of the tables: another one whenever a column changes its name, its type or its meaning, or is gone. Columns and tables
/// that are added change nothing.
pub const TABLES_VERSION: &str = "1";

/// A table of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TraceTable {
    /// Every access.
    Accesses,
    /// Allocations and releases.
    Allocations,
    /// Calling contexts, with what was accessed and allocated in each.
    Contexts,
    /// Fields and elements of variables, counted.
    Fields,
    /// The frames of the file, from their headers.
    Frames,
    /// Functions, counted.
    Functions,
    /// What is missing.
    Gaps,
    /// Pages, counted.
    Pages,
    /// Processes.
    Processes,
    /// Mappings.
    Regions,
    /// What orders threads.
    Syncs,
    /// Threads.
    Threads,
    /// Variables and heap blocks, counted.
    Variables,
}

use ValueType::{Name, Names, Number32, Number64, Signed32, Text, Truth};

const fn column(name: &'static str, value_type: ValueType, words: &'static str) -> TableColumn {
    TableColumn::new(name, value_type, words)
}

const fn optional(name: &'static str, value_type: ValueType, words: &'static str) -> TableColumn {
    TableColumn::optional(name, value_type, words)
}

const THREAD: TableColumn = column("thread", Number32, "the thread's number in the trace");
const PROCESS: TableColumn = column("process", Number32, "the process's number in the trace");
const CYCLE: TableColumn = column("cycle", Number64, "when, on the thread's own clock");
const ORDER: TableColumn = column("order", Number64, "when, in the session");
const IP: TableColumn = column("ip", Number64, "the instruction");
const CALL: TableColumn = column("ip", Number64, "the call");
const LOADS: TableColumn = column("loads", Number64, "accesses that only read");
const STORES: TableColumn = column("stores", Number64, "accesses that only write");
const MODIFIES: TableColumn = column("modifies", Number64, "read-modify-writes, counted once each");
const BYTES: TableColumn = column("bytes", Number64, "bytes of all of them");
const START_NS: TableColumn = column("start_ns", Number64, "its start, ns since the Unix epoch");
const END_NS: TableColumn = optional("end_ns", Number64, "its end, once it ended");

const ACCESSES: &[TableColumn] = &[
    THREAD,
    PROCESS,
    CYCLE,
    IP,
    column("addr", Number64, "the first byte"),
    column("size", Number32, "bytes"),
    column("kind", Name, "load, store, modify or prefetch"),
    column("variable", Name, "the variable or heap block, as `report` names it"),
    column("offset", Number64, "bytes from its start"),
    optional("field", Name, "the path in it where debug information tells its type: `.pixels[3].red`"),
    column("region", Name, "what the memory is for: data, bss, heap, stack and so on"),
    column("function", Name, "the innermost function, as `report` names it"),
    optional("module", Name, "the file name of the program or library that the instruction is in"),
    optional("file", Name, "the source file"),
    optional("line", Number32, "the line in it"),
    optional(
        "context",
        Number64,
        "the stack of functions that made it, as the number that `contexts` has; `*` leaves it out",
    )
    .by_name_only(),
    optional("wall_ns", Number64, "about when, ns since the Unix epoch"),
];

const ALLOCATIONS: &[TableColumn] = &[
    THREAD,
    PROCESS,
    CYCLE,
    ORDER,
    CALL,
    column("kind", Name, "malloc, calloc, realloc, mmap, mremap, free, munmap or brk"),
    column("function", Name, "by which call: `malloc`, `operator new[]` and so on"),
    column("addr", Number64, "the block: the new one, or the one that is released"),
    column("size", Number64, "bytes asked for, or released; 0 for free"),
    optional("old_addr", Number64, "the block that it replaces"),
    optional("variable", Text, "what the block is called"),
    column("code", Text, "the call as `function+offset`"),
];

const CONTEXTS: &[TableColumn] = &[
    optional("context", Number64, "the number of the stack, which is the same in every trace"),
    column("stack", Names, "the functions, outermost first"),
    LOADS,
    STORES,
    MODIFIES,
    BYTES,
    column("allocations", Number64, "calls that allocated"),
    column("allocated_bytes", Number64, "bytes that they asked for"),
];

/// What tables of counts have, with the keys of `report --json`.
const COUNTED: &[TableColumn] = &[
    column("name", Text, "its name"),
    column("region", Name, "the kind of memory; of code its module"),
    LOADS,
    STORES,
    MODIFIES,
    BYTES,
    column("size", Number64, "its size in bytes; 0 where that is not known"),
    column("things", Number64, "how many things the row stands for"),
    optional("line", Text, "source file and line"),
    column("module", Name, "the file name of its module; of a block that of the code which allocated it"),
    column("owner", Name, "program, linker, c_library, kernel or memtap"),
];

const FRAMES: &[TableColumn] = &[
    column("stream", Number32, "the number of its stream"),
    column("name", Name, "the name of the stream"),
    optional("thread", Number32, "the thread, of a stream that is a thread's"),
    optional("process", Number32, "its process"),
    column("frame", Number64, "its place in the stream, from 0"),
    column("first_index", Number64, "the index of its first entry"),
    column("entries", Number64, "entries"),
    optional("first_cycle", Number64, "the smallest cycle"),
    optional("last_cycle", Number64, "the largest cycle"),
    optional("first_ns", Number64, "when its first entry came, ns since the Unix epoch"),
    optional("last_ns", Number64, "when it was encoded"),
    optional("lowest_addr", Number64, "the lowest address of data"),
    optional("highest_addr", Number64, "the highest"),
    optional("lowest_ip", Number64, "the lowest address of an instruction"),
    optional("highest_ip", Number64, "the highest"),
    column("stored_bytes", Number64, "bytes in the file"),
];

const GAPS: &[TableColumn] = &[
    optional("thread", Number32, "the thread, where one is concerned"),
    optional("process", Number32, "the process"),
    optional("cycle", Number64, "where in the thread's events"),
    column("count", Number64, "events that are missing, as far as that is known"),
    column("reason", Name, "why, as in `stat`"),
    optional("addr", Number64, "the instruction or mapping concerned"),
];

const PAGES: &[TableColumn] = &[
    PROCESS,
    column("addr", Number64, "the page's first byte"),
    column("region", Name, "what the memory is for"),
    LOADS,
    STORES,
    MODIFIES,
    BYTES,
];

const PROCESSES: &[TableColumn] = &[
    PROCESS,
    column("pid", Number32, "the kernel's number"),
    optional("parent", Number32, "the process that forked it, if that was recorded"),
    START_NS,
    END_NS,
    optional("exit_status", Signed32, "its exit status, or minus the signal that ended it"),
    column("exe", Text, "the path of the executable"),
    column("args", Text, "the arguments, quoted for a shell"),
];

const REGIONS: &[TableColumn] = &[
    PROCESS,
    column("addr", Number64, "the first byte"),
    column("size", Number64, "bytes, at its largest"),
    column("kind", Name, "what it is for: text, data, bss, heap and so on"),
    column("readable", Truth, "whether the program may read it"),
    column("writable", Truth, "whether it may write it"),
    column("executable", Truth, "whether it may execute it"),
    column("name", Name, "the path of the mapped file, or a name in brackets; empty for anonymous memory"),
    column("file_offset", Number64, "the offset of the first byte in that file"),
    column("since", Number64, "when it appeared: an order"),
    optional("until", Number64, "when its last byte disappeared, if it has"),
];

const SYNCS: &[TableColumn] = &[
    THREAD,
    PROCESS,
    CYCLE,
    ORDER,
    CALL,
    column("kind", Name, "lock, unlock, release, acquire and so on"),
    column("function", Name, "by what kind of call: mutex, barrier and so on"),
    column("object", Number64, "the address of what is synchronised on, or a number"),
    column("value", Number64, "depends on the kind; 0 where nothing is said"),
];

const THREADS: &[TableColumn] = &[
    THREAD,
    PROCESS,
    column("tid", Number32, "the kernel's number"),
    START_NS,
    END_NS,
    column("accesses", Number64, "its accesses, prefetches among them, as the headers of frames say"),
];

impl TraceTable {
    /// All of them, by name.
    pub const ALL: [Self; 13] = [
        Self::Accesses,
        Self::Allocations,
        Self::Contexts,
        Self::Fields,
        Self::Frames,
        Self::Functions,
        Self::Gaps,
        Self::Pages,
        Self::Processes,
        Self::Regions,
        Self::Syncs,
        Self::Threads,
        Self::Variables,
    ];

    /// Its name in queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accesses => "accesses",
            Self::Allocations => "allocations",
            Self::Contexts => "contexts",
            Self::Fields => "fields",
            Self::Frames => "frames",
            Self::Functions => "functions",
            Self::Gaps => "gaps",
            Self::Pages => "pages",
            Self::Processes => "processes",
            Self::Regions => "regions",
            Self::Syncs => "syncs",
            Self::Threads => "threads",
            Self::Variables => "variables",
        }
    }

    /// The table of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// What it has a row of, and where its rows come from.
    pub fn words(self) -> &'static str {
        match self {
            Self::Accesses => "Every access.",
            Self::Allocations => "Allocations and releases, in the order of the session.",
            Self::Contexts => {
                "Stacks of functions, as `report --by stack` has them: what happened in each, without what happened in functions that \
                 these called. Needs a trace whose stacks were recorded."
            }
            Self::Fields => "Fields and elements of variables, as `report --by field` has them.",
            Self::Frames => "The parts of the file. From their headers: nothing is decoded.",
            Self::Functions => "Functions that make accesses, as `report --by function` has them.",
            Self::Gaps => {
                "What is missing: what the recorder could not see, and frames that can't be read. The whole trace is read to find \
                 these; their counts add up to the gaps of `stat`."
            }
            Self::Pages => {
                "Pages of 4,096 bytes, as `report --by page` has them. From the page index where there is one (`memtap index`)."
            }
            Self::Processes => "Processes of the session.",
            Self::Regions => "Mappings that a process had at some time.",
            Self::Syncs => "What orders threads: locks, barriers, threads that begin and end.",
            Self::Threads => "Threads of the session.",
            Self::Variables => "Variables and heap blocks, as `report --by variable --json` has them.",
        }
    }

    /// Its columns.
    pub fn columns(self) -> &'static [TableColumn] {
        match self {
            Self::Accesses => ACCESSES,
            Self::Allocations => ALLOCATIONS,
            Self::Contexts => CONTEXTS,
            Self::Fields | Self::Functions | Self::Variables => COUNTED,
            Self::Frames => FRAMES,
            Self::Gaps => GAPS,
            Self::Pages => PAGES,
            Self::Processes => PROCESSES,
            Self::Regions => REGIONS,
            Self::Syncs => SYNCS,
            Self::Threads => THREADS,
        }
    }

    /// Its schema, with the version of the tables.
    pub fn schema(self) -> SchemaRef {
        let fields: Vec<_> = self.columns().iter().map(TableColumn::field).collect();
        let version = HashMap::from([("memtap.tables".to_owned(), TABLES_VERSION.to_owned())]);
        Arc::new(Schema::new_with_metadata(fields, version))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn tables_are_as_their_document_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/tables.md");
        let document = std::fs::read_to_string(path).unwrap();
        assert!(document.contains(&format!("This is version {TABLES_VERSION} of the tables")));
        let mut at = 0;
        for table in TraceTable::ALL {
            let mut text = format!(
                "\n## {}\n\n{}\n\n| column | type | what it says |\n|---|---|---|\n",
                table.name(),
                table.words()
            );
            for column in table.columns() {
                let null = if column.nullable { ", or null" } else { "" };
                writeln!(
                    text,
                    "| `{}` | {}{null} | {} |",
                    column.name,
                    column.value_type.words(),
                    column.words
                )
                .unwrap();
            }
            let found = document[at..].find(&text);
            at += found.unwrap_or_else(|| panic!("docs/tables.md lacks, in this place:\n{text}"));
        }
        let heads = document.matches("\n## ").count();
        assert_eq!(heads, TraceTable::ALL.len(), "docs/tables.md has a table that is none");
    }

    #[test]
    fn tables_are_found_by_name() {
        for table in TraceTable::ALL {
            assert_eq!(TraceTable::from_name(table.name()), Some(table));
        }
        assert_eq!(TraceTable::from_name("access"), None);
        assert!(TraceTable::ALL.iter().map(|table| table.name()).is_sorted());
    }
}
