//! `cargo xtask bench types`: the cost of `layout`, `cache`, `lines` and `errors`, in one run, as Markdown.
//!
//! It measures the processor time of the readers per access; figures are medians of rounds. Beside them
//! are recording, and Valgrind's tools, which each answer one such question while the program runs.

use anyhow::{Context, Result};

use crate::bench_answers::Answers;
use crate::shell;
use crate::table::{Table, short};

/// What a model of a machine has.
const LEVELS: [&str; 6] = ["--l1", "48k,12,64", "--l2", "1m,16,64", "--ll", "32m,16,64"];

/// Runs everything; `--rounds N` says how often.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    let bench = Answers::new("types", rest)?;
    let life = bench.path("life");
    let source = shell::repository().join("examples/life.c");
    let source = source.to_str().context("the repository's path is not UTF-8")?;
    shell::run(&["gcc", "-g", "-O2", "-o", &life, source])?;
    let script = "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i + 1 from n \
                  where i < 10000) insert into t select i, hex(i * 7919) from n; select count(*) from t where b like '3%';";
    let programs: [(&str, &[&str]); 2] = [
        ("life, 65,536 cells, -O2 -g", &[&life, "10"]),
        ("sqlite3, 10,000 rows", &["sqlite3", ":memory:", script]),
    ];
    let mut readers = Table::new(&[
        "ns of processor time an access",
        "million accesses",
        "record",
        "layout",
        "cache, three levels",
        "lines",
        "errors",
    ]);
    let mut others = Table::new(&[
        "ns of processor time an access",
        "record and errors",
        "memcheck",
        "record and cache",
        "cachegrind",
        "record and layout",
        "DHAT",
    ]);
    for (name, line) in programs {
        let trace = bench.path("t.memtap");
        let record = bench.memtap(&[&["record", "--force", "-o", &trace, "--"], line].concat())?;
        let accesses = bench.stat(&trace, "accesses")?;
        let each = |seconds: f64| short(seconds * 1e9 / accesses);
        let layout = bench.memtap(&["layout", &trace])?;
        let cache = bench.memtap(&[&["cache", &trace][..], &LEVELS].concat())?;
        let lines = bench.memtap(&["lines", &trace])?;
        let errors = bench.memtap(&["errors", &trace])?;
        readers.row(vec![
            name.to_owned(),
            short(accesses / 1e6),
            each(record.cpu),
            each(layout.cpu),
            each(cache.cpu),
            each(lines.cpu),
            each(errors.cpu),
        ]);
        let valgrind = |tool: &str, out: &str| {
            let tool = format!("--tool={tool}");
            bench.cost(&[&["valgrind", "-q", &tool, out], line].concat())
        };
        let memcheck = valgrind("memcheck", "--leak-check=full")?;
        let cachegrind = valgrind("cachegrind", &format!("--cachegrind-out-file={}", bench.path("cg")))?;
        let dhat = valgrind("dhat", &format!("--dhat-out-file={}", bench.path("dhat")))?;
        others.row(vec![
            name.to_owned(),
            each(record.cpu + errors.cpu),
            each(memcheck.cpu),
            each(record.cpu + cache.cpu),
            each(cachegrind.cpu),
            each(record.cpu + layout.cpu),
            each(dhat.cpu),
        ]);
    }
    readers.print("### Types, caches, lines, errors");
    others.print("### With recording, beside Valgrind's tools");
    Ok(())
}
