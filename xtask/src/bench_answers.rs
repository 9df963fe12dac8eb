//! `cargo xtask bench answers`: what it costs to get answers from a trace, in one run, as Markdown.
//!
//! Processor time of the readers, an access; medians of rounds. DHAT, which answers while the program runs, stands beside recording and the
//! first answer. A long trace of a kernel's loop is what the questions that an index answers are asked of.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::bench_record::{number, words};
use crate::table::{Table, median, short};
use crate::{install, kernel, shell};

/// Accesses of the long trace.
const LONG: &str = "1000000000";

/// What a command took, in seconds: of the processor, and by the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
}

/// Commands of memtap and other programs, measured.
pub(crate) struct Answers {
    pub(crate) memtap: String,
    dir: String,
    rounds: usize,
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
        let rounds = match rest {
            [] => 3,
            ["--rounds", n] => n.parse().with_context(|| format!("{n:?} is no number of rounds"))?,
            _ => bail!("usage: cargo xtask bench {name} [--rounds N]"),
        };
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
        let once = || -> Result<Cost> {
            let (before, start) = (children_seconds()?, Instant::now());
            let mut command = Command::new(line[0]);
            command.args(&line[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if !command.status().with_context(|| format!("can't start {line:?}"))?.success() {
                bail!("{line:?} fails");
            }
            Ok(Cost { cpu: children_seconds()? - before, wall: start.elapsed().as_secs_f64() })
        };
        let costs = (0..self.rounds).map(|_| once()).collect::<Result<Vec<_>>>()?;
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
        let text = self.path("text");
        std::fs::write(&text, words(2_000_000))?;
        let script = "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i + 1 from n \
                      where i < 30000) insert into t select i, hex(i * 7919) from n; create index u on t(b); \
                      select count(*), sum(a), max(b) from t where b like '3%';";
        let programs: [(&str, &[&str]); 3] = [
            ("gzip, 2 MB", &["gzip", "-c", &text]),
            ("sqlite3, 30,000 rows", &["sqlite3", ":memory:", script]),
            ("perl, a hash", &["perl", "-e", "my %h; $h{$_ % 999} .= 'x' for 1..300000"]),
        ];
        let mut readers = Table::new(&[
            "ns of processor time an access",
            "million accesses",
            "decode and index",
            "by variable",
            "by variable, clock",
            "by function",
            "by stack",
            "by page, indexed, ms",
            "index, bytes an access",
        ]);
        let mut first = Table::new(&[
            "from the start to the first answer, ns an access",
            "record",
            "report by variable",
            "together",
            "by the clock",
            "DHAT",
            "DHAT by the clock",
        ]);
        for (name, line) in programs {
            let trace = self.path("t.memtap");
            let index = format!("{trace}.mtx");
            let record = self.memtap(&[&["record", "--force", "-o", &trace, "--"], line].concat())?;
            let accesses = self.stat(&trace, "accesses")?;
            let each = |seconds: f64| short(seconds * 1e9 / accesses);
            let variable = self.memtap(&["report", &trace, "--by", "variable"])?;
            let function = self.memtap(&["report", &trace, "--by", "function"])?;
            let stack = self.memtap(&["report", &trace, "--by", "stack"])?;
            let indexing = self.memtap(&["index", "--force", &trace])?;
            let page = self.memtap(&["report", &trace, "--by", "page"])?;
            let bytes = std::fs::metadata(&index)?.len() as f64;
            readers.row(vec![
                name.to_owned(),
                short(accesses / 1e6),
                each(indexing.cpu),
                each(variable.cpu),
                each(variable.wall),
                each(function.cpu),
                each(stack.cpu),
                short(page.wall * 1e3),
                format!("{:.5}", bytes / accesses),
            ]);
            let out = format!("--dhat-out-file={}", self.path("dhat"));
            let dhat = self.cost(&[&["valgrind", "--tool=dhat", &out], line].concat())?;
            first.row(vec![
                name.to_owned(),
                each(record.cpu),
                each(variable.cpu),
                each(record.cpu + variable.cpu),
                each(record.wall + variable.wall),
                each(dhat.cpu),
                each(dhat.wall),
            ]);
        }
        readers.print("### Reading");
        first.print("### Recording and the first answer, beside DHAT's");
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

/// Processor time of all children that have ended, by the kernel's ticks of 10 ms.
fn children_seconds() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // After the name in parentheses the fields have no blanks.
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks: f64 = fields.iter().skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}
