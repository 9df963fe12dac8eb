//! `memtap taint`: what input reaches. It needs every instruction; a trace of accesses alone is refused.

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::{Error, Session};
use anyhow::{Context, Result, bail};
use clap::Parser;

use super::units::UnitArgs;

/// Follow input through memory and registers
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// As JSON
    #[arg(long)]
    #[allow(dead_code, reason = "the contract has it")]
    json: bool,
    #[command(flatten)]
    #[allow(dead_code, reason = "the contract has it")]
    units: UnitArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = Session::open(&args.file)?;
    let shown = args.file.display();
    if session.trace().properties().get("tracer").is_some_and(|tracer| tracer == "translate") {
        bail!(
            "{shown}: this version of memtap does not follow input yet; memtap report and memtap dump say what was accessed"
        );
    }
    Err(Error::NoControlFlow).with_context(|| shown.to_string())
}
