//! `memtap flame`: a flame graph of who called whom, each call as wide as what happened in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::machine::{GuestCallTree, Machine, ProgramPlaces};
use analysis::stack::StackTally;
use analysis::{BlockUses, Count, Session, TracePart, has_stacks};
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use report::export::{CallTree, Measure};
use report::flame::FlameGraph;

use crate::inputs;
use crate::new_file::Output;
use crate::output::note_problems;
use crate::progress::Reading;

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlameFigure {
    /// Accesses: loads, stores and modifies
    #[default]
    Accesses,
    /// Bytes that these accessed
    Bytes,
    /// Bytes that were allocated
    Allocations,
    /// Bytes that were allocated and never released
    Live,
    /// Instructions (a machine)
    Instructions,
}

impl From<FlameFigure> for Measure {
    fn from(figure: FlameFigure) -> Self {
        match figure {
            FlameFigure::Accesses => Self::Accesses,
            FlameFigure::Bytes => Self::Bytes,
            FlameFigure::Allocations => Self::Allocations,
            FlameFigure::Live => Self::Live,
            FlameFigure::Instructions => Self::Instructions,
        }
    }
}

/// Draw a flame graph: which functions access memory, and who called them
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// The picture to write: .svg; - is standard output
    #[arg(short, long, value_name = "OUT", value_parser = crate::new_file::name())]
    output: PathBuf,
    /// What is counted
    #[arg(long, value_enum, default_value = "accesses")]
    of: FlameFigure,
    /// The file of a program or library of the guest, for its names (a machine; may be given several times)
    #[arg(long, value_name = "FILE")]
    guest_program: Vec<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    super::refuse_same(&args.file, &args.output)?;
    let session = inputs::session(&args.file)?;
    let mut output = Output::create(&args.output, args.force)?;
    let measure = Measure::from(args.of);
    let tree = call_tree(&session, &args.file, measure, &args.guest_program)?;
    let graph = FlameGraph::of(&session, &tree, measure);
    output.write_all(graph.svg().as_bytes())?;
    output.finish()?;
    note_problems(&session);
    Ok(ExitCode::SUCCESS)
}

/// Who called whom in a trace, with what one figure needs. Programs are those of a machine's guest whose names are wanted.
pub(crate) fn call_tree(
    session: &Session,
    file: &Path,
    measure: Measure,
    programs: &[PathBuf],
) -> Result<CallTree> {
    if Machine::of(session).is_some() {
        if matches!(measure, Measure::Allocations | Measure::Live) {
            bail!("{}: a machine's trace has no allocations", file.display());
        }
        return Ok(CallTree::of_guest(&guest_calls(session, file, programs)?));
    }
    needs_stacks(session, file)?;
    if measure == Measure::Instructions {
        bail!("{}: instructions are counted of machines only (record --tracer qemu)", file.display());
    }
    let mut tree = CallTree::new();
    if measure == Measure::Live {
        let mut uses = BlockUses::new(session);
        session.replay(&Default::default(), None, &mut uses)?;
        tree.add_live(session.names(), &uses);
    } else {
        let mut tally = StackTally::new(session);
        tally.replay(session, &TracePart::default())?;
        tree.count(session.names(), &tally);
    }
    Ok(tree)
}

/// Who called whom in a machine.
pub(crate) fn guest_calls(session: &Session, file: &Path, programs: &[PathBuf]) -> Result<GuestCallTree> {
    let programs = inputs::guest_programs(programs)?;
    let tree = {
        let _reading = Reading::of(session);
        let places = inputs::guest_places(session.trace(), &programs)?;
        told_guest_calls(session, &places)?
    };
    tree.with_context(|| {
        format!(
            "{}: calls are told by what is stored, and returns by what is loaded; record without --only",
            file.display()
        )
    })
}

/// The same; `None` where loads or stores alone were recorded.
pub(crate) fn told_guest_calls(
    session: &Session,
    places: &ProgramPlaces<'_>,
) -> Result<Option<GuestCallTree>> {
    let tree = GuestCallTree::of(session.trace(), places)?;
    let count = tree.totals().first().map_or_else(Count::default, |total| total.count);
    Ok((count.accesses() == 0 || count.loads > 0 && count.stores > 0).then_some(tree))
}

/// Refuses a trace that can't tell who called whom.
pub(crate) fn needs_stacks(session: &Session, file: &Path) -> Result<()> {
    if !has_stacks(session) {
        bail!(
            "{}: has no accesses to stacks, so calls are unknown; record with memtap record --tracer translate",
            file.display()
        );
    }
    Ok(())
}
