//! `memtap heatmap`: the address space as a picture (MadT, Figure 1); of a machine, its physical memory.

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::machine::{Machine, walk};
use analysis::{By, Pages, Session, Tally, coverage};
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use memref::{Access, ProcessId, RegionKind, VirtAddr};
use report::heatmap::{Layout, MapRegion, Only, to_svg};

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
    if let Some(machine) = Machine::of(&session) {
        return machine_map(&session, &machine, args, png);
    }
    let mut tally = Tally::new(&[By::Page]);
    let resolvers = session.replay(&Default::default(), None, &mut tally)?;
    let layout = Layout::new(title(&session), &MapRegion::all(&resolvers), tally.pages(), only(args))
        .with_coverage(coverage(&session));
    draw(args, &layout, png)
}

/// The physical memory of a machine.
fn machine_map(session: &Session, machine: &Machine, args: &Args, png: bool) -> Result<ExitCode> {
    let mut pages = Pages::default();
    let mut end = machine.ram_bytes;
    for record in session.trace().threads() {
        walk(session.trace(), record.thread, |access, physical| {
            // One that crosses pages belongs to the page of its first byte; devices are not memory.
            if let Some([first, _]) = physical.ranges(access) {
                end = end.max(first.end);
                pages.add(ProcessId(0), &[Access { addr: VirtAddr(first.start), ..*access }]);
            }
        })?;
    }
    let region = MapRegion {
        process: ProcessId(0),
        start: VirtAddr(0),
        len: end.next_multiple_of(VirtAddr::PAGE_BYTES),
        kind: RegionKind::Anonymous,
        traced: true,
        name: "physical memory".into(),
    };
    let layout = Layout::new(title(session), &[region], &pages, only(args));
    draw(args, &layout, png)
}

fn title(session: &Session) -> &str {
    let properties = session.trace().properties();
    properties.get("args").or(properties.get("program")).map_or("trace", |args| args)
}

fn only(args: &Args) -> Only {
    match args.only {
        None => Only::All,
        Some(Kinds::Loads) => Only::Loads,
        Some(Kinds::Stores) => Only::Stores,
    }
}

fn draw(args: &Args, layout: &Layout, png: bool) -> Result<ExitCode> {
    let shown = args.output.display();
    let svg = to_svg(layout);
    let bytes =
        if png { report::png::from_svg(&svg).with_context(|| shown.to_string())? } else { svg.into_bytes() };
    std::fs::write(&args.output, bytes).with_context(|| format!("{shown}: can't be written"))?;
    Ok(ExitCode::SUCCESS)
}
