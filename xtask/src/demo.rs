//! `cargo xtask demo`: from nothing to answers. It builds memtap and runs the commands of README's first screen, then records gzip.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result};

use crate::progress::{FirstRun, Progress};
use crate::{install, shell};

/// What the demo leaves.
const PLACE: &str = "demo";

/// A real program, which comes without debug information.
const GZIP: [&str; 3] = [
    "memtap record -o gzip.memtap -- gzip -kf README.md",
    "memtap report gzip.memtap --top 5",
    "memtap heatmap gzip.memtap -o heatmap.svg",
];

/// Builds, runs the commands, and leaves the traces and pictures in `demo/`.
pub(crate) fn run() -> Result<()> {
    let mut progress = Progress::start("demo", 4, &FirstRun { minutes: 4, gigabytes: 1 })?;
    progress.step("install what is missing", || install::tools(install::DEMO))?;
    progress.step("build", build)?;
    let place = shell::repository().join(PLACE);
    let binaries = shell::profile_dir("release");
    let readme = fs::read_to_string(shell::repository().join("README.md"))?;
    progress.step("a small program", || {
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place)?;
        symlink("../examples", place.join("examples"))?;
        fs::write(place.join("README.md"), &readme)?;
        first_screen(&readme).into_iter().try_for_each(|command| ask(&place, &binaries, command))?;
        ask(&place, &binaries, "memtap report run.memtap --html report.html")
    })?;
    progress.step("gzip", || GZIP.into_iter().try_for_each(|command| ask(&place, &binaries, command)))?;
    progress.finish()?;
    let memtap = binaries.join("memtap");
    let memtap = memtap.display();
    println!("\nA page of the small program: {}", place.join("report.html").display());
    println!("Its flame graph:             {}", place.join("run.svg").display());
    println!("A heat map of gzip:          {}", place.join("heatmap.svg").display());
    println!("\nNow your own program:");
    println!("  {memtap} record -o my.memtap -- ./my-program");
    println!("  {memtap} report my.memtap");
    println!("  {memtap} view my.memtap");
    Ok(())
}

/// Builds what records and reads, and nothing else. The tracer's library lies beside the program, and need not be in it as well.
fn build() -> Result<()> {
    let words = ["cargo", "build", "--release", "-p", "memtap", "-p", "interpose"];
    shell::run_command(shell::command(&words).env("MEMTAP_BUNDLE", "0"))
}

/// The commands that stand before the first heading below the title.
fn first_screen(readme: &str) -> Vec<&str> {
    let screen = readme.split("\n## ").next().unwrap_or_default();
    let commands = screen.lines().filter_map(|line| line.strip_prefix("$ "));
    commands.map(|command| command.split("  #").next().unwrap_or(command).trim_end()).collect()
}

/// Shows a command, and runs it in a folder with memtap on PATH.
fn ask(place: &Path, binaries: &Path, command: &str) -> Result<()> {
    println!("\n$ {command}");
    let path = std::env::var_os("PATH").context("there is no PATH")?;
    let path = std::env::join_paths(std::iter::once(binaries.into()).chain(std::env::split_paths(&path)))?;
    let status = shell::command(&["sh", "-c", command]).current_dir(place).env("PATH", path).status()?;
    anyhow::ensure!(status.success(), "{command}: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_screen_records_and_asks() {
        let readme = fs::read_to_string(shell::repository().join("README.md")).unwrap();
        let commands = first_screen(&readme);
        assert!(commands[0].starts_with("gcc -g ") && !commands[0].contains('#'), "{commands:?}");
        assert!(commands[1..].iter().all(|command| command.starts_with("memtap ")), "{commands:?}");
        for word in ["record", "report", "flame"] {
            assert!(commands.iter().any(|command| command.split(' ').nth(1) == Some(word)), "{word}");
        }
    }
}
