//! `memtap sql`: questions in SQL, which another binary answers: only those build it who ask.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Parser;

/// The binary that answers.
const PROGRAM: &str = "memtap-sql";

/// Ask traces in SQL
///
/// The binary memtap-sql answers, which is looked for beside memtap and on PATH. docs/tables.md describes the tables. With several
/// traces each table has a column `trace` in front. Without a query, memtap asks for some.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The traces, and the query after them
    #[arg(required = true, value_name = "FILE... [QUERY]")]
    words: Vec<OsString>,
    /// How the rows are written [default: table]
    #[arg(long, value_name = "FORMAT", value_parser = ["table", "json", "csv", "arrow", "parquet"])]
    format: Option<String>,
    /// The file to write; needed for parquet
    #[arg(short, long, value_name = "OUT", value_parser = crate::new_file::name())]
    output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

impl Args {
    /// A query whose rows become a Parquet file.
    pub(crate) fn parquet(file: &Path, query: &str, output: &Path, is_forced: bool) -> Self {
        Self {
            words: vec![file.into(), query.into()],
            format: Some("parquet".to_owned()),
            output: Some(output.to_owned()),
            force: is_forced,
        }
    }
}

/// Where it may be: beside memtap, then where PATH says.
fn places() -> Vec<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(PROGRAM)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(PROGRAM));
    beside.into_iter().chain(on_path.collect::<Vec<_>>()).collect()
}

/// Becomes the other binary. `symbols` and `strict` are options that all commands have.
pub(crate) fn run(args: &Args, symbols: &[PathBuf], strict: bool) -> Result<ExitCode> {
    let Some(program) = places().into_iter().find(|place| place.is_file()) else {
        bail!(
            "{PROGRAM} is neither beside memtap nor on PATH; build it with cargo build --release -p {PROGRAM}, and copy target/release/{PROGRAM} beside memtap"
        );
    };
    let mut command = Command::new(&program);
    let mut option = |name: &str, value: &OsStr| {
        command.arg(name).arg(value);
    };
    args.format.iter().for_each(|format| option("--format", OsStr::new(format)));
    args.output.iter().for_each(|output| option("--output", output.as_os_str()));
    symbols.iter().for_each(|dir| option("--symbols", dir.as_os_str()));
    command.args(args.force.then_some("--force")).args(strict.then_some("--strict"));
    command.arg("--").args(&args.words);
    Err(command.exec()).with_context(|| format!("{}: can't be started", program.display()))
}
