//! `memtap heatmap`: the address space as a picture (MadT, Figure 1), or the physical memory of a machine.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::machine::Machine;
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use report::export::{Selection, export};
use report::heatmap::{HeatMap, Only, PictureForm, physical_memory};

use crate::inputs;
use crate::new_file::NewFile;

/// Which accesses are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShownKinds {
    /// Those that read
    Loads,
    /// Those that write
    Stores,
}

/// Draw a heat map of the address space: one cell per page, coloured by the number of accesses
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// The picture to write: .svg or .png
    #[arg(short, long, value_name = "OUT", value_parser = crate::new_file::name())]
    output: PathBuf,
    /// Show only these accesses
    #[arg(long, value_enum)]
    only: Option<ShownKinds>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = inputs::session(&args.file)?;
    let shown = || args.output.display().to_string();
    let form = match args.output.extension().and_then(|extension| extension.to_str()) {
        Some("png") => PictureForm::Png,
        Some("svg") => PictureForm::Svg,
        _ => bail!("{}: the name must end with .svg or .png", shown()),
    };
    let only = match args.only {
        None => Only::All,
        Some(ShownKinds::Loads) => Only::Loads,
        Some(ShownKinds::Stores) => Only::Stores,
    };
    // Before anything is read: a name that can't be used is told at once.
    let mut output = NewFile::create(&args.output, args.force)?;
    let mut picture = Vec::new();
    if let Some(machine) = Machine::of(&session) {
        picture = form.draw(&physical_memory(&session, &machine, only)?).with_context(shown)?;
    } else {
        export(&session, &Selection::default(), &mut HeatMap { only, form }, &mut picture)
            .with_context(shown)?;
    }
    output.write_all(&picture)?;
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}
