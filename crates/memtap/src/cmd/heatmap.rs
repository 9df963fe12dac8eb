//! `memtap heatmap`: the address space as a picture (MadT, Figure 1).

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::heatmap::{Layout, Only, to_png, to_svg};
use analysis::{By, Session, Tally};
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

/// Which accesses are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kinds {
    /// Those that read
    Loads,
    /// Those that write
    Stores,
}

/// Draw the address space, a cell a page, by the number of accesses
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// The picture to write: .svg or .png
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Show only these accesses
    #[arg(long, value_enum)]
    only: Option<Kinds>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = Session::open(&args.file)?;
    let shown = args.output.display();
    let png = match args.output.extension().and_then(|extension| extension.to_str()) {
        Some("png") => true,
        Some("svg") => false,
        _ => bail!("{shown}: the name must end with .svg or .png"),
    };
    let mut tally = Tally::new(&[By::Page]);
    let resolvers = session.replay(&Default::default(), None, &mut tally)?;
    let only = match args.only {
        None => Only::All,
        Some(Kinds::Loads) => Only::Loads,
        Some(Kinds::Stores) => Only::Stores,
    };
    let properties = session.trace().properties();
    let title = properties.get("args").or(properties.get("program")).map_or("trace", |args| args);
    let layout = Layout::new(title, &session.map_regions(&resolvers), tally.pages(), only);
    let bytes = if png {
        to_png(&layout).with_context(|| format!("{shown}: the picture is too large"))?
    } else {
        to_svg(&layout).into_bytes()
    };
    std::fs::write(&args.output, bytes).with_context(|| format!("{shown}: can't be written"))?;
    Ok(ExitCode::SUCCESS)
}
