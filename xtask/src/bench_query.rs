//! `cargo xtask bench query`: the cost of questions in SQL and from Python, in one run, as Markdown.
//!
//! It measures whole commands, so starting and reading debug information are included. From Python, only the question counts, not
//! the loading of libraries. DuckDB answers beside them, from a Parquet file of the same accesses with their names.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::bench_answers::{Answers, Cost, TABLE, cost_once};
use crate::table::{Table, median, short};
use crate::{kernel, python, shell};

/// Accesses of the long trace.
const LONG: &str = "1000000000";
/// Traces of the catalogue.
const TRACES: usize = 1000;

/// Twenty variables, most accessed first.
const GROUPS: &str =
    "SELECT variable, count(*) AS n FROM accesses GROUP BY variable ORDER BY n DESC LIMIT 20";

/// What a question from Python took, in seconds and megabytes.
struct Asked {
    wall: f64,
    cpu: f64,
    megabytes: f64,
}

/// Runs everything; `--rounds N` says how often.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    let bench = Answers::new("query", rest)?;
    shell::run(&[
        "cargo",
        "build",
        "--release",
        "-p",
        "trace-sql",
        "-p",
        "memtap-sql",
        "-p",
        "memtap-cluster",
    ])?;
    python::prepare()?;
    python::build_release()?;
    long(&bench)?;
    groups(&bench)?;
    frame(&bench)?;
    catalogue(&bench)
}

/// Seconds of processor time, and by the clock.
fn seconds(Cost { cpu, wall }: Cost) -> String {
    format!("{cpu:.3} / {wall:.3}")
}

/// Records a program.
fn record(bench: &Answers, name: &str, line: &[&str]) -> Result<String> {
    let trace = bench.path(name);
    shell::run(&[&[&*bench.memtap, "record", "--force", "-o", &*trace, "--"], line].concat())?;
    Ok(trace)
}

/// Questions that read little of a long trace.
fn long(bench: &Answers) -> Result<()> {
    let dense = kernel::build("dense")?;
    let trace = record(bench, "long.memtap", &[&dense, "copy", LONG])?;
    bench.memtap(&["index", "--force", &trace])?;
    let accesses = bench.stat(&trace, "accesses")?;
    let window =
        "SELECT count(*) FROM accesses WHERE variable = 'to' AND cycle BETWEEN 500000000 AND 500100000";
    let questions = [
        ("`count(*)`", "SELECT count(*) FROM accesses"),
        ("by page", "SELECT * FROM pages ORDER BY loads + stores + modifies DESC LIMIT 20"),
        ("one variable in a window of 100,000 cycles", window),
    ];
    let mut table = Table::new(&["question", "s, processor time / wall clock"]);
    for (name, query) in questions {
        table.row(vec![name.to_owned(), seconds(bench.memtap(&["sql", &trace, query])?)]);
    }
    table.print(&format!("### {} million accesses, indexed", short(accesses / 1e6)));
    let plan =
        shell::output(Command::new(&bench.memtap).args(["sql", &trace, &format!("EXPLAIN {window}")]))?;
    let frames = plan.split("frames=").nth(1).and_then(|rest| rest.split(", accesses").next());
    println!("\nFrames read for the window: {}.", frames.context("EXPLAIN tells of no frames")?);
    for file in [&trace, &format!("{trace}.mtx")] {
        fs::remove_file(file)?;
    }
    Ok(())
}

/// One question that reads everything, in four ways.
fn groups(bench: &Answers) -> Result<()> {
    let trace = record(bench, "sqlite.memtap", &["sqlite3", ":memory:", TABLE])?;
    let accesses = bench.stat(&trace, "accesses")?;
    let each =
        |cpu: f64, wall: f64| format!("{} / {}", short(cpu * 1e9 / accesses), short(wall * 1e9 / accesses));
    let mut table = Table::new(&["group by variable", "ns per access, processor time / wall clock"]);
    let sql = bench.memtap(&["sql", &trace, GROUPS])?;
    table.row(vec!["`memtap sql`".to_owned(), each(sql.cpu, sql.wall)]);
    let cluster = Cluster::of_two(&bench.memtap)?;
    let asked = bench.memtap(&[
        "cluster",
        "query",
        "--scheduler",
        &cluster.scheduler,
        "--parts",
        "2",
        &trace,
        GROUPS,
    ])?;
    drop(cluster);
    table.row(vec![
        "`memtap cluster`, two executors".to_owned(),
        format!("- / {}", short(asked.wall * 1e9 / accesses)),
    ]);
    let polars = ask(bench, "polars", &trace)?;
    table.row(vec!["Polars, `memtap.scan_polars`".to_owned(), each(polars.cpu, polars.wall)]);
    let parquet = bench.path("sqlite.parquet");
    let export = ["export", &trace, "--format", "parquet", "--force", "-o", &parquet];
    let export = bench.memtap(&export)?;
    let duckdb = ask(bench, "duckdb", &parquet)?;
    table.row(vec!["DuckDB, from Parquet".to_owned(), each(duckdb.cpu, duckdb.wall)]);
    table.row(vec!["`memtap export --format parquet`".to_owned(), each(export.cpu, export.wall)]);
    table.print(&format!("### A scan of {} million accesses (sqlite3)", short(accesses / 1e6)));
    let bytes = |path: &str| Ok::<_, anyhow::Error>(fs::metadata(path)?.len() as f64 / accesses);
    println!(
        "\nBytes per access: {} in the trace, {} in Parquet.",
        short(bytes(&trace)?),
        short(bytes(&parquet)?)
    );
    for file in [&trace, &parquet] {
        fs::remove_file(file)?;
    }
    Ok(())
}

/// A scheduler and two executors with one core each, as long as this lives.
struct Cluster {
    scheduler: String,
    members: Vec<Child>,
}

impl Cluster {
    fn of_two(memtap: &str) -> Result<Self> {
        let mut cluster = Self { scheduler: String::new(), members: Vec::new() };
        cluster.scheduler = cluster.start(memtap, &["scheduler", "--listen", "127.0.0.1:0"])?;
        let scheduler = cluster.scheduler.clone();
        for _ in 0..2 {
            cluster.start(memtap, &["executor", "--cores", "1", "--scheduler", &scheduler])?;
        }
        Ok(cluster)
    }

    /// Starts a process, and says where it listens.
    fn start(&mut self, memtap: &str, words: &[&str]) -> Result<String> {
        let mut command = Command::new(memtap);
        let mut child = command.arg("cluster").args(words).stderr(Stdio::piped()).spawn()?;
        let said = child.stderr.take();
        self.members.push(child);
        let mut line = String::new();
        BufReader::new(said.context("it is a pipe")?).read_line(&mut line)?;
        let address = line.split(" at ").nth(1).and_then(|rest| rest.split([',', '\n']).next());
        Ok(address.with_context(|| format!("{words:?} says {line}"))?.to_owned())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

/// A data frame of all accesses.
fn frame(bench: &Answers) -> Result<()> {
    let dense = kernel::build("dense")?;
    let trace = record(bench, "short.memtap", &[&dense, "hash", "7000000"])?;
    let accesses = bench.stat(&trace, "accesses")?;
    let asked = ask(bench, "frame", &trace)?;
    let mut table = Table::new(&["", "s, processor time / wall clock", "MB"]);
    let cost = Cost { cpu: asked.cpu, wall: asked.wall };
    table.row(vec!["six columns".to_owned(), seconds(cost), short(asked.megabytes)]);
    table.print(&format!("### A data frame of {} million accesses", short(accesses / 1e6)));
    fs::remove_file(&trace)?;
    Ok(())
}

/// A catalogue of many traces.
fn catalogue(bench: &Answers) -> Result<()> {
    let folder = bench.path("catalogue");
    let _ = fs::remove_dir_all(&folder);
    let one = bench.path("one.memtap");
    let mut adding = Cost { cpu: 0.0, wall: 0.0 };
    for _ in 0..TRACES {
        let record = [&*bench.memtap, "record", "--force", "-o", &one, "--", "true"];
        let made = shell::command(&record).stderr(std::process::Stdio::null()).status()?;
        anyhow::ensure!(made.success(), "{record:?} fails");
        let cost = cost_once(&[&bench.memtap, "catalogue", "add", &folder, &one])?;
        adding = Cost { cpu: adding.cpu + cost.cpu, wall: adding.wall + cost.wall };
    }
    let query =
        "SELECT exe, count(*) AS runs, sum(loads + stores + modifies) AS accesses FROM runs GROUP BY exe";
    let mut table = Table::new(&["", "s, processor time / wall clock"]);
    table.row(vec![
        "add one trace".to_owned(),
        seconds(Cost { cpu: adding.cpu / TRACES as f64, wall: adding.wall / TRACES as f64 }),
    ]);
    table.row(vec!["one query".to_owned(), seconds(bench.memtap(&["catalogue", "query", &folder, query])?)]);
    table.print(&format!("### A catalogue of {TRACES} traces"));
    fs::remove_dir_all(&folder)?;
    fs::remove_file(&one)?;
    Ok(())
}

/// Asks from Python: medians of the rounds.
fn ask(bench: &Answers, what: &str, path: &str) -> Result<Asked> {
    let script = shell::repository().join("benches/query/query.py");
    let once = |_| -> Result<[f64; 3]> {
        let text = shell::output(python::command("python").arg(&script).args([what, path]))?;
        let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        figures.get(..3).and_then(|figures| figures.try_into().ok()).context("query.py says something else")
    };
    let all = (0..bench.rounds).map(once).collect::<Result<Vec<_>>>()?;
    let of = |place: usize| median(all.iter().map(|figures| figures[place]).collect());
    Ok(Asked { wall: of(0), cpu: of(1), megabytes: of(2) })
}
