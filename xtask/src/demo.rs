//! `cargo xtask demo`: shows, starting from nothing, what a small program of examples/ and a real program do to their memory.

use std::fs::{self, File};

use anyhow::{Context, Result};

use crate::progress::{FirstRun, Progress};
use crate::{install, shell};

/// What the demo leaves.
const PLACE: &str = "demo";

/// Builds; records examples/inventory.c and `gzip -c README.md`; asks; and leaves the traces and pages in `demo/`.
pub(crate) fn run() -> Result<()> {
    let mut progress = Progress::start("demo", 4, &FirstRun { minutes: 4, gigabytes: 1 })?;
    progress.step("install what is missing", || install::tools(install::DEMO))?;
    progress.step("build", shell::build_release)?;
    let memtap = shell::profile_dir("release").join("memtap");
    let memtap = memtap.to_str().context("the path of the target directory is not UTF-8")?;
    fs::create_dir_all(PLACE)?;
    progress.step("a small program", || inventory(memtap))?;
    progress.step("gzip", || gzip(memtap))?;
    progress.finish()?;
    let place = shell::repository().join(PLACE);
    println!("\nThe traces:   {}", place.join("inventory.memtap").display());
    println!("              {}", place.join("gzip.memtap").display());
    println!("The report:   {}", place.join("report.html").display());
    println!("The heat map: {}", place.join("heatmap.svg").display());
    println!("More to ask:  {memtap} report {PLACE}/inventory.memtap --by line");
    println!("              {memtap} dump {PLACE}/gzip.memtap --format symbolic | less");
    Ok(())
}

/// Says what is asked, and asks.
fn ask(question: &str, line: &[&str]) -> Result<()> {
    println!("\n{question}");
    shell::run(line)
}

/// A program whose answers are known: a hot field, a buffer that nobody reads, and a leak.
fn inventory(memtap: &str) -> Result<()> {
    let (program, trace) = ("demo/inventory", "demo/inventory.memtap");
    shell::run(&["gcc", "-g", "-O0", "-o", program, "examples/inventory.c"])?;
    shell::run(&[memtap, "record", "--force", "-o", trace, program])?;
    ask("What is accessed most?", &[memtap, "report", trace, "--top", "5"])?;
    ask(
        "Who accesses it, and which part of it?",
        &[memtap, "report", trace, "--by", "field,function", "--name", "shelf*.key", "--top", "3"],
    )?;
    ask("What is written and never read? What is never freed?", &[memtap, "report", trace, "--unused"])
}

/// A program of which nobody thought that it would be recorded.
fn gzip(memtap: &str) -> Result<()> {
    let trace = "demo/gzip.memtap";
    let packed = File::create("demo/README.md.gz")?;
    let mut record =
        shell::command(&[memtap, "record", "--force", "-o", trace, "--", "gzip", "-c", "README.md"]);
    shell::run_command(record.stdout(packed))?;
    ask("And gzip?", &[memtap, "report", trace, "--top", "5"])?;
    shell::run(&[memtap, "report", trace, "--html", "demo/report.html", "--force"])?;
    shell::run(&[memtap, "heatmap", trace, "-o", "demo/heatmap.svg", "--force"])
}
