//! `cargo xtask demo`: from nothing to a named, drawn recording of a real program.

use std::fs::{self, File};

use anyhow::{Context, Result};

use crate::{install, shell};

/// Builds, records `gzip -c README.md`, prints what was found and leaves the pages in `demo/`.
pub(crate) fn run() -> Result<()> {
    install::tools(install::DEMO)?;
    shell::build_release()?;
    let memtap = shell::profile_dir("release").join("memtap");
    let memtap = memtap.to_str().context("the path of the target directory is not UTF-8")?;
    fs::create_dir_all("demo")?;
    let trace = "demo/gzip.memtap";
    let packed = File::create("demo/README.md.gz")?;
    let mut record =
        shell::command(&[memtap, "record", "--force", "-o", trace, "--", "gzip", "-c", "README.md"]);
    shell::run_command(record.stdout(packed))?;
    shell::run(&[memtap, "stat", trace])?;
    shell::run(&[memtap, "report", trace, "--by", "variable"])?;
    shell::run(&[memtap, "report", trace, "--html", "demo/report.html"])?;
    shell::run(&[memtap, "heatmap", trace, "-o", "demo/heatmap.svg"])?;
    let place = shell::repository().join("demo");
    println!("\nThe trace:    {}", place.join("gzip.memtap").display());
    println!("The report:   {}", place.join("report.html").display());
    println!("The heat map: {}", place.join("heatmap.svg").display());
    println!("More to ask:  {memtap} dump {trace} --format symbolic | less");
    Ok(())
}
