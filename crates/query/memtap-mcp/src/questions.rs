//! What can be asked. The comments are what an agent reads about each parameter.

use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;

/// What rows of a table stand for.
pub(crate) const KINDS: [&str; 11] = [
    "variable",
    "local",
    "field",
    "type",
    "function",
    "line",
    "allocation",
    "page",
    "region",
    "thread",
    "stack",
];

/// Which accesses are counted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct Selection {
    /// Only rows whose name matches this glob: `*table*`, `Particle.x`
    name: Option<String>,
    /// Only what belongs to this program or library, as a glob: `libc.so.6`
    module: Option<String>,
    /// Only accesses of this thread, by its number in the trace
    thread: Option<u64>,
    /// Only accesses at these cycles (instructions) of their thread: `1000..2000`
    cycles: Option<String>,
    /// Only accesses to these addresses: `0x7f001000..0x7f001040`
    addresses: Option<String>,
}

impl Selection {
    /// As options of the command line.
    pub(crate) fn options(&self) -> Vec<String> {
        let words = [
            ("name", self.name.clone()),
            ("module", self.module.clone()),
            ("thread", self.thread.map(|number| number.to_string())),
            ("cycles", self.cycles.clone()),
            ("range", self.addresses.clone()),
        ];
        words.into_iter().filter_map(|(name, value)| Some(format!("--{name}={}", value?))).collect()
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ReportQuestion {
    /// What each row stands for
    #[schemars(extend("enum" = KINDS))]
    pub(crate) by: String,
    /// Divide each row by this, too: `variable` by `function` says who accesses what (not with stack)
    #[schemars(extend("enum" = KINDS))]
    pub(crate) then_by: Option<String>,
    #[serde(flatten)]
    pub(crate) selection: Selection,
    /// How rows are sorted [default: accesses]
    #[schemars(extend("enum" = ["accesses", "loads", "stores", "modifies", "bytes", "size", "count", "name"]))]
    pub(crate) sort: Option<String>,
    /// How many rows [default: 20]
    pub(crate) rows: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct WhoQuestion {
    /// The variable, field or heap block, as a glob: `counter`, `Particle.x`, `*cache*`. A field's name has a dot in it
    pub(crate) name: Option<String>,
    /// Or an address in hexadecimal: `0x7f001000`
    pub(crate) address: Option<String>,
    /// With an address: how many bytes [default: 8]
    pub(crate) bytes: Option<u64>,
    /// How many rows [default: 20]
    pub(crate) rows: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct RowsQuestion {
    /// How many rows [default: 20]
    pub(crate) rows: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct LayoutQuestion {
    /// Only this type, by its full name
    #[serde(rename = "type")]
    pub(crate) named: Option<String>,
    /// How many types [default: 20]
    pub(crate) rows: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct CacheQuestion {
    /// What misses are counted by [default: variable]
    #[schemars(extend("enum" = ["variable", "field", "type", "function", "line", "allocation", "stack", "region", "thread"]))]
    pub(crate) by: Option<String>,
    /// The machine whose caches are simulated: `zen4`, `sapphire-rapids` [default: this machine]
    pub(crate) machine: Option<String>,
    /// How many rows [default: 20]
    pub(crate) rows: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SourceQuestion {
    /// The end of the file's path: `main.c`, `src/list.rs`
    pub(crate) file: String,
    /// How many lines, most accessed first [default: 20]
    pub(crate) rows: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct AccessesQuestion {
    /// The first address in hexadecimal: `0x7f001000`
    pub(crate) address: String,
    /// How many bytes [default: 8]
    pub(crate) bytes: Option<u64>,
    /// Only this thread, by its number in the trace
    pub(crate) thread: Option<u64>,
    /// Only from this cycle (instruction) of each thread on: the next accesses after one that is known
    pub(crate) from_cycle: Option<u64>,
    /// Only before this cycle: the previous accesses
    pub(crate) to_cycle: Option<u64>,
    /// The last ones instead of the first ones: with `to_cycle`, who wrote it before
    #[serde(default)]
    pub(crate) last: bool,
    /// How many accesses [default: 20]
    pub(crate) rows: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SqlQuestion {
    /// The query. Tables: accesses, allocations, threads, variables, fields, functions, lines, pages, and others; `SHOW TABLES` and
    /// `DESCRIBE accesses` tell more
    pub(crate) query: String,
    /// How many rows [default: 20]
    pub(crate) rows: Option<usize>,
}
