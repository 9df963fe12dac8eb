//! The comment at the head of a test program: how it is built and what it must do.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Counts, Tally};

/// What a program's head says, one `// key: value` a line.
///
/// | key | value |
/// |---|---|
/// | `build` | flags for the compiler |
/// | `uses` | another program, whose path becomes the first argument |
/// | `links` | another program, a shared library that it is linked with |
/// | `needs` | processor features, as /proc/cpuinfo names them |
/// | `args`, `stdin` | of the run |
/// | `record` | options of `memtap record` |
/// | `stdout`, `stderr` | one line that the program writes |
/// | `status` | exit status, 128 + signal where one ends it |
/// | `lackey: no` | the counts can't be checked with Valgrind |
/// | `translate: no`, `only` | the counts are those of the protect tracer, which takes a call of the C library as one event; or those of the translating tracer, which sees stacks and instructions |
/// | `stat` | `key=value` of `memtap stat --json` |
/// | `alloc` | `kind=count` of `memtap stat --json`'s `allocations`, or `frees=count` |
/// | `marker` | `name=count` |
/// | `expect` | `variable size=N loads=N stores=N modifies=N`: all its accesses of that size; other sizes have none |
/// | `block` | `function bytes=N count=N [kind=copy\|fill\|fetch] [dst=variable] [src=variable]` |
/// | `stale` | a use of released memory: `BLOCK by FUNCTION`, then `loads=N` or `stores=N`; `double BLOCK by FUNCTION` for a second free, see tests/stale.rs |
/// | `sink` | `kind\|function\|source\|offset` of a finding of `memtap taint`, see tests/watchpoints.rs |
/// | `race` | a variable that two threads access without order, see tests/races.rs |
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "the table says it")]
pub struct Header {
    pub build: Vec<String>,
    pub uses: Option<String>,
    pub links: Option<String>,
    pub needs: Vec<String>,
    pub args: Vec<String>,
    pub stdin: String,
    pub record: Vec<String>,
    pub stdout: String,
    pub stderr: String,
    pub status: i32,
    pub lackey: bool,
    pub tracers: Tracers,
    pub stat: BTreeMap<String, u64>,
    pub alloc: BTreeMap<String, u64>,
    pub markers: BTreeMap<String, u64>,
    pub expect: Vec<Expectation>,
    pub blocks: Vec<BlockOps>,
    pub races: Vec<String>,
    pub stale: Vec<String>,
    pub sinks: Vec<String>,
}

/// The tracers that a program's counts are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table of Header says it")]
pub enum Tracers {
    #[default]
    Both,
    Protect,
    Translate,
}

impl Tracers {
    /// Whether that tracer is one of them.
    pub fn has(self, tracer: &str) -> bool {
        match self {
            Self::Both => true,
            Self::Protect => tracer == "protect",
            Self::Translate => tracer == "translate",
        }
    }
}

/// All accesses to one variable.
#[derive(Debug)]
pub struct Expectation {
    /// The variable, or `<kind@function>` for the blocks that one function allocates.
    pub name: String,
    /// Its accesses by size.
    pub tally: Tally,
}

/// Block operations that a program makes.
#[derive(Debug)]
#[allow(missing_docs, reason = "the table of Header says it")]
pub struct BlockOps {
    pub function: String,
    pub kind: Option<String>,
    pub bytes: u64,
    pub count: u64,
    pub dst: Option<String>,
    pub src: Option<String>,
}

impl Header {
    /// Reads the head of a source file. A line it can't read is a panic: a test that expects nothing can't fail.
    pub fn read(source: &Path) -> Self {
        let text = std::fs::read_to_string(source).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
        let mut header = Self { lackey: true, ..Self::default() };
        for line in text.lines() {
            let Some(line) = line.strip_prefix("//").or_else(|| line.strip_prefix('#')) else { break };
            let Some((key, value)) = line.trim_start().split_once(':') else { continue };
            header
                .take(key, value.trim())
                .unwrap_or_else(|| panic!("{}: can't read {line:?}", source.display()));
        }
        header
    }

    fn take(&mut self, key: &str, value: &str) -> Option<()> {
        let words = || value.split_whitespace().map(str::to_owned);
        match key {
            "build" => self.build.extend(words()),
            "uses" => self.uses = Some(value.to_owned()),
            "links" => self.links = Some(value.to_owned()),
            "needs" => self.needs.extend(words()),
            "args" => self.args.extend(words()),
            "stdin" => self.stdin = format!("{value}\n"),
            "record" => self.record.extend(words()),
            "stdout" => self.stdout += &format!("{value}\n"),
            "stderr" => self.stderr += &format!("{value}\n"),
            "status" => self.status = value.parse().ok()?,
            "lackey" => self.lackey = value != "no",
            "translate" if value == "no" => self.tracers = Tracers::Protect,
            "translate" if value == "only" => self.tracers = Tracers::Translate,
            "stat" => self.stat.extend(pairs(value)?),
            "alloc" => self.alloc.extend(pairs(value)?),
            "marker" => self.markers.extend(pairs(value)?),
            "expect" => self.take_expectation(value)?,
            "block" => self.blocks.push(blocks(value)?),
            "race" => self.races.push(value.to_owned()),
            "stale" => self.stale.push(value.to_owned()),
            "sink" => self.sinks.push(value.to_owned()),
            // Prose with a colon.
            _ => {}
        }
        Some(())
    }

    fn take_expectation(&mut self, value: &str) -> Option<()> {
        let (name, rest) = value.split_once(" size=")?;
        let (size, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut counts = Counts::default();
        for (key, n) in pairs(rest)? {
            match key.as_str() {
                "loads" => counts.loads = n,
                "stores" => counts.stores = n,
                "modifies" => counts.modifies = n,
                _ => return None,
            }
        }
        let at = self.expect.iter().position(|e| e.name == name).unwrap_or_else(|| {
            self.expect.push(Expectation { name: name.to_owned(), tally: Tally::default() });
            self.expect.len() - 1
        });
        self.expect[at].tally.set(size.parse().ok()?, counts);
        Some(())
    }
}

fn pairs(text: &str) -> Option<Vec<(String, u64)>> {
    text.split_whitespace()
        .map(|pair| pair.split_once('=').and_then(|(k, v)| Some((k.to_owned(), v.parse().ok()?))))
        .collect()
}

fn blocks(text: &str) -> Option<BlockOps> {
    let (function, rest) = text.split_once(' ')?;
    let mut found =
        BlockOps { function: function.to_owned(), kind: None, bytes: 0, count: 0, dst: None, src: None };
    for pair in rest.split_whitespace() {
        let (key, value) = pair.split_once('=')?;
        match key {
            "kind" => found.kind = Some(value.to_owned()),
            "bytes" => found.bytes = value.parse().ok()?,
            "count" => found.count = value.parse().ok()?,
            "dst" => found.dst = Some(value.to_owned()),
            "src" => found.src = Some(value.to_owned()),
            _ => return None,
        }
    }
    Some(found)
}
