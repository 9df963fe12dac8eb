//! `cargo xtask bench answers`: the cost of getting answers from a trace, in one run, as Markdown.
//!
//! It measures processor time and wall-clock time of the readers, per access; figures are medians of rounds. Valgrind's tools, which
//! answer while the program runs, are shown beside them. Questions that an index answers are put to a long trace of a kernel's loop.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::bench_record::number;
use crate::bench_translate::functions;
use crate::table::{Table, median, short};
use crate::{bench_runs, install, kernel, shell};

/// Accesses of the long trace.
const LONG: &str = "1000000000";

/// Has sqlite3 fill a table, index it and ask it.
pub(crate) const TABLE: &str = "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i + 1 from n \
    where i < 30000) insert into t select i, hex(i * 7919) from n; create index u on t(b); \
    select count(*), sum(a), max(b) from t where b like '3%';";

/// What a command took, in seconds: of the processor, and by the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
}

impl Cost {
    fn an_access(&self, accesses: f64) -> String {
        let each = |seconds: f64| short(seconds * 1e9 / accesses);
        format!("{} / {}", each(self.cpu), each(self.wall))
    }
}

/// A program that was recorded.
struct Recorded {
    trace: String,
    record: Cost,
    accesses: f64,
}

/// Commands of memtap and other programs, measured.
pub(crate) struct Answers {
    pub(crate) memtap: String,
    dir: String,
    pub(crate) rounds: usize,
}

/// Runs everything; `--rounds N` says how often.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    let bench = Answers::new("answers", rest)?;
    bench.programs()?;
    bench.long()
}

impl Answers {
    /// With memtap as it is released, and a folder of that name; `--rounds N` says how often each command runs.
    pub(crate) fn new(name: &str, rest: &[&str]) -> Result<Self> {
        let rounds = bench_runs::rounds(name, rest, 3)?;
        install::tools(install::BENCH)?;
        shell::run(&["cargo", "build", "--release", "-p", "memtap", "-p", "interpose"])?;
        let dir = shell::target_dir().join(format!("bench-{name}"));
        std::fs::create_dir_all(&dir)?;
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).context("the target directory's path is not UTF-8")
        };
        let memtap = text(&shell::profile_dir("release").join("memtap"))?;
        println!("Medians of {rounds} rounds.");
        Ok(Self { memtap, dir: text(&dir)?, rounds })
    }

    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    /// Runs a command of memtap, or another program, without its output.
    pub(crate) fn cost(&self, line: &[&str]) -> Result<Cost> {
        let costs = (0..self.rounds).map(|_| cost_once(line)).collect::<Result<Vec<_>>>()?;
        let of = |what: fn(&Cost) -> f64| median(costs.iter().map(what).collect());
        Ok(Cost { cpu: of(|cost| cost.cpu), wall: of(|cost| cost.wall) })
    }

    pub(crate) fn memtap(&self, rest: &[&str]) -> Result<Cost> {
        self.cost(&[&[&*self.memtap], rest].concat())
    }

    pub(crate) fn stat(&self, trace: &str, key: &str) -> Result<f64> {
        number(&shell::output(Command::new(&self.memtap).args(["stat", trace, "--json"]))?, key)
    }

    fn programs(&self) -> Result<()> {
        let lua = "local t = {} for i = 1, 400000 do t[i] = { key = i, name = 'n' .. i % 1000 } end local n = 0 \
                   for round = 1, 5 do for i, one in ipairs(t) do if one.key % 3 == round % 3 then n = n + #one.name end end end print(n)";
        let hash = kernel::build_workload("hash_threads")?;
        let cc1 = shell::output(Command::new("gcc").arg("-print-prog-name=cc1"))?;
        let source = self.path("source.i");
        std::fs::write(&source, functions(10))?;
        let programs: [(&str, &[&str]); 4] = [
            ("sqlite3, 30,000 rows", &["sqlite3", ":memory:", TABLE]),
            ("Lua, 400,000 tables", &["lua5.4", "-e", lua]),
            ("hash tables, 4 threads", &[&hash, "4", "300000"]),
            (
                "cc1 -O2, 10 functions",
                &[cc1.trim(), "-O2", "-quiet", "-fpreprocessed", &source, "-o", "/dev/null"],
            ),
        ];
        let traces = programs.iter().enumerate().map(|(number, (_, line))| {
            let trace = self.path(&format!("{number}.memtap"));
            let record = self.memtap(&[&["record", "--force", "-o", &trace, "--"], *line].concat())?;
            let accesses = self.stat(&trace, "accesses")?;
            Ok(Recorded { trace, record, accesses })
        });
        let traces = traces.collect::<Result<Vec<_>>>()?;
        let names = programs.map(|(name, _)| name);
        self.readers(&names, &traces)?;
        self.peers(&programs, &traces)?;
        for recorded in &traces {
            std::fs::remove_file(&recorded.trace)?;
        }
        Ok(())
    }

    /// A row a question, and for each program what its answer costs.
    fn readers(&self, names: &[&str], traces: &[Recorded]) -> Result<()> {
        let mut table = Table::new(&[&["ns an access, processor time / by the clock"], names].concat());
        let accesses =
            traces.iter().map(|recorded| format!("{} million accesses", short(recorded.accesses / 1e6)));
        table.row(std::iter::once(String::new()).chain(accesses).collect());
        let picture = self.path("flame.svg");
        let flame = ["flame", "--force", "-o", &*picture];
        let questions: [(&str, &[&str], &[&str]); 16] = [
            ("every entry decoded (`check`)", &["check"], &[]),
            ("`report`, as people type it", &["report"], &[]),
            ("`report --by variable --json`", &["report"], &["--by", "variable", "--json"]),
            ("`report --by function --json`", &["report"], &["--by", "function", "--json"]),
            ("`report --by line --json`", &["report"], &["--by", "line", "--json"]),
            ("`report --by type --json`", &["report"], &["--by", "type", "--json"]),
            ("`report --by field --json`", &["report"], &["--by", "field", "--json"]),
            ("`report --by stack --json`", &["report"], &["--by", "stack", "--json"]),
            ("`flame`", &flame, &[]),
            ("`layout --json`", &["layout"], &["--json"]),
            ("`cache --json`, three levels", &["cache"], &["--json"]),
            ("`cache --sweep --json`", &["cache"], &["--sweep", "--json"]),
            ("`lines --json`", &["lines"], &["--json"]),
            ("`errors --json`", &["errors"], &["--json"]),
            ("`race --json`", &["race"], &["--json"]),
            ("`taint --json`", &["taint"], &["--json"]),
        ];
        for (name, command, options) in questions {
            let mut row = vec![name.to_owned()];
            for Recorded { trace, accesses, .. } in traces {
                let cost = self.memtap(&[command, &[trace], options].concat())?;
                row.push(cost.an_access(*accesses));
            }
            table.row(row);
        }
        table.print("### Reading");
        Ok(())
    }

    /// From nothing to an answer, beside tools that answer while the program runs.
    fn peers(&self, programs: &[(&str, &[&str])], traces: &[Recorded]) -> Result<()> {
        let names: Vec<&str> = programs.iter().map(|(name, _)| *name).collect();
        let mut table = Table::new(&[&["ns an access, processor time / by the clock"], &names[..]].concat());
        let record = traces.iter().map(|recorded| recorded.record.an_access(recorded.accesses));
        table.row(std::iter::once("`record`".to_owned()).chain(record).collect());
        let mut first = vec!["`record` and `report --by variable`".to_owned()];
        for Recorded { trace, record, accesses } in traces {
            let report = self.memtap(&["report", trace, "--by", "variable"])?;
            let together = Cost { cpu: record.cpu + report.cpu, wall: record.wall + report.wall };
            first.push(together.an_access(*accesses));
        }
        table.row(first);
        for tool in ["dhat", "cachegrind", "memcheck", "callgrind"] {
            let (tool_option, log) =
                (format!("--tool={tool}"), format!("--log-file={}", self.path("valgrind.log")));
            let out = match tool {
                "memcheck" => "--leak-check=full".to_owned(),
                _ => format!("--{tool}-out-file={}", self.path(tool)),
            };
            let mut row = vec![tool.to_owned()];
            for ((_, line), recorded) in programs.iter().zip(traces) {
                let cost = self.cost(&[&["valgrind", &*tool_option, &out, &log], *line].concat())?;
                row.push(cost.an_access(recorded.accesses));
            }
            table.row(row);
        }
        table.print("### From the start to the first answer, beside Valgrind's tools");
        Ok(())
    }

    /// A trace of 10^9 accesses, recorded from a loop.
    fn long(&self) -> Result<()> {
        let dense = kernel::build("dense")?;
        let (trace, picture) = (self.path("long.memtap"), self.path("map.svg"));
        let line = [&*self.memtap, "record", "--force", "-o", &trace, "--", &dense, "copy", LONG];
        shell::run(&line)?;
        let accesses = self.stat(&trace, "accesses")?;
        let indexing = self.memtap(&["index", "--force", &trace])?;
        let page = self.memtap(&["report", &trace, "--by", "page"])?;
        let map = self.memtap(&["heatmap", &trace, "--force", "-o", &picture])?;
        let mut table =
            Table::new(&["an indexed trace", "building the index, ns an access", "by page, s", "heatmap, s"]);
        table.row(vec![
            format!("{} million accesses", short(accesses / 1e6)),
            short(indexing.cpu * 1e9 / accesses),
            format!("{:.3}", page.wall),
            format!("{:.3}", map.wall),
        ]);
        table.print("### A long trace with its index");
        for file in [&trace, &format!("{trace}.mtx")] {
            std::fs::remove_file(file)?;
        }
        Ok(())
    }
}

/// Runs a program once, without its output.
pub(crate) fn cost_once(line: &[&str]) -> Result<Cost> {
    let (before, start) = (children_seconds()?, Instant::now());
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !command.status().with_context(|| format!("can't start {line:?}"))?.success() {
        bail!("{line:?} fails");
    }
    Ok(Cost { cpu: children_seconds()? - before, wall: start.elapsed().as_secs_f64() })
}

/// Processor time of all children that have ended, by the kernel's ticks of 10 ms.
fn children_seconds() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // After the name in parentheses the fields have no blanks.
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks: f64 = fields.iter().skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}
