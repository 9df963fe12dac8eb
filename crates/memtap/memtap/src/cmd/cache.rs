//! `memtap cache`: the accesses that miss modelled caches, or caches of every size.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::cache::{
    CacheMisses, CacheSetup, CacheShape, KnownMachine, Replacement, ReuseSweep, known_machine, this_machine,
};
use analysis::lines::TouchedLines;
use analysis::machine::Machine;
use analysis::{By, Session, has_stacks};
use anyhow::{Result, bail};
use clap::{CommandFactory, Parser, ValueEnum, error::ErrorKind};
use report::svg::{ReuseCurve, reuse_chart};
use report::tables::caches::{curve_json, curve_text, misses_as_json, misses_as_text};

use crate::inputs;
use crate::new_file::Output;
use crate::output::{Out, note_problems};

/// What misses are counted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum MissesBy {
    /// A static variable or a heap block
    #[default]
    Variable,
    /// A variable's field or element, or a type's where a heap block has one
    Field,
    /// A type, of heap blocks and static variables
    Type,
    /// The function that accesses
    Function,
    /// The source line that accesses
    Line,
    /// The call that allocated what was accessed
    Allocation,
    /// The functions that called each other down to the access
    Stack,
    /// A region
    Region,
    /// A thread
    Thread,
}

impl MissesBy {
    fn rows(self) -> Option<By> {
        Some(match self {
            Self::Variable => By::Variable,
            Self::Field => By::Field,
            Self::Type => By::Type,
            Self::Function => By::Function,
            Self::Line => By::Line,
            Self::Allocation => By::Allocation,
            Self::Region => By::Region,
            Self::Thread => By::Thread,
            Self::Stack => return None,
        })
    }
}

/// Which line of a full set goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// The least recently used one
    #[default]
    Lru,
    /// Pseudo-LRU: a tree of bits
    Plru,
    /// Any
    Random,
}

/// What --svg shows of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Curve {
    /// Misses by size
    #[default]
    Misses,
    /// Accesses by the distance from the last use
    Distances,
    /// Bytes used by each part of the run
    WorkingSet,
}

/// Simulate caches: misses by variable, function, line or stack; with --sweep, for every cache size
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// The first level, one per thread: size, ways and line size in bytes
    #[arg(long, value_name = "SIZE,WAYS,LINE")]
    l1: Option<CacheShape>,
    /// The second level, one per thread
    #[arg(long, value_name = "SIZE,WAYS,LINE")]
    l2: Option<CacheShape>,
    /// The last level, shared by all threads
    #[arg(long, value_name = "SIZE,WAYS,LINE")]
    ll: Option<CacheShape>,
    /// Use a machine's cache levels: zen4, sapphire-rapids, ... Without it, those of this machine (host)
    #[arg(long, value_name = "NAME", value_parser = machine_named)]
    machine: Option<KnownMachine>,
    /// Which line is evicted from a full set
    #[arg(long, value_enum, default_value = "lru")]
    policy: Policy,
    /// Simulate a prefetcher that follows sequential misses
    #[arg(long)]
    prefetch: bool,
    /// Count misses by this
    #[arg(long, value_enum, default_value = "variable")]
    by: MissesBy,
    /// Evaluate every cache size in one pass: stack distances, and the working set over the run
    #[arg(long, conflicts_with_all = ["by", "policy", "prefetch", "all"])]
    sweep: bool,
    /// With --sweep: sample this share of the lines, from 0.0001 to 1; a very long trace is sampled 1 in 100 by default
    #[arg(long, value_name = "PART", requires = "sweep", value_parser = part)]
    sample: Option<f64>,
    /// With --sweep: draw a picture
    #[arg(long, value_name = "OUT", requires = "sweep")]
    svg: Option<PathBuf>,
    /// What --svg draws
    #[arg(long, value_enum, default_value = "misses", requires = "svg")]
    curve: Curve,
    /// Replace the picture if it exists
    #[arg(long, requires = "svg")]
    force: bool,
    /// As JSON: all rows
    #[arg(long)]
    json: bool,
    /// Show so many rows
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Show all rows
    #[arg(long)]
    all: bool,
    /// Wider than the terminal
    #[arg(long)]
    wide: bool,
}

fn machine_named(name: &str) -> Result<KnownMachine, String> {
    match name {
        "host" => this_machine().ok_or_else(|| "the kernel does not tell this machine's caches".to_owned()),
        name => known_machine(name),
    }
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0001..=1.0).contains(&part) => Ok(part),
        _ => Err("a number from 0.0001 to 1".to_owned()),
    }
}

/// The levels that are asked for: what is given alone, or a machine's with what is given in their place.
fn setup(args: &Args) -> CacheSetup {
    let given = args.l1.is_some() || args.l2.is_some() || args.ll.is_some();
    let machine = args.machine.or_else(|| if given { None } else { this_machine() });
    let common = CacheShape { bytes: 48 << 10, ways: 12, line_bytes: 64 };
    let replacement = match args.policy {
        Policy::Lru => Replacement::Lru,
        Policy::Plru => Replacement::PseudoLru,
        Policy::Random => Replacement::Random,
    };
    CacheSetup {
        l1: args.l1.or(machine.map(|machine| machine.l1)).unwrap_or(common),
        l2: args.l2.or(machine.and_then(|machine| machine.l2)),
        ll: args.ll.or(machine.and_then(|machine| machine.ll)),
        replacement,
        prefetch: args.prefetch,
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let setup = setup(args);
    if let Err(error) = setup.check() {
        crate::Cli::command().error(ErrorKind::ValueValidation, error).exit();
    }
    let session = inputs::session(&args.file)?;
    let missing = if args.sweep { sweep(args, &session, &setup)? } else { model(args, &session, &setup)? };
    note_problems(&session);
    if Machine::of(&session).is_some() {
        say!(
            "memtap: note: addresses of a machine are virtual: what its processes have at one address is one line here"
        );
    }
    if missing > 0 {
        say!("memtap: note: {} from the trace; the caches lack their accesses", report::missing(missing));
    }
    Ok(ExitCode::SUCCESS)
}

fn model(args: &Args, session: &Session, setup: &CacheSetup) -> Result<u64> {
    let by = args.by.rows();
    if by.is_none() && !has_stacks(session) {
        bail!(
            "{}: has no accesses to stacks, so calls are unknown; record with memtap record --tracer translate",
            args.file.display()
        );
    }
    let mut model = CacheMisses::new(session, *setup, by, TouchedLines::read(session)?)?;
    let resolvers = model.replay(session)?;
    let rows = model.rows(session, &resolvers);
    let name = by.map_or("stack", By::name);
    let mut out = Out::stdout();
    if args.json {
        misses_as_json(setup, &model, name, &rows, &mut out)?;
    } else {
        let look = out.look(args.wide);
        let top = (!args.all).then_some(args.top);
        misses_as_text(setup, &model, name, &rows, top, look, &mut out)?;
    }
    out.finish()?;
    Ok(model.missing)
}

fn sweep(args: &Args, session: &Session, setup: &CacheSetup) -> Result<u64> {
    let mut picture = match &args.svg {
        Some(path) => {
            super::refuse_same(&args.file, path)?;
            Some(Output::create(path, args.force)?)
        }
        None => None,
    };
    let mut sweep = ReuseSweep::new(session, setup.l1.line_bytes, args.sample);
    sweep.replay(session)?;
    let curve = sweep.curve();
    if let Some(mut picture) = picture.take() {
        let which = match args.curve {
            Curve::Misses => ReuseCurve::Misses,
            Curve::Distances => ReuseCurve::Distances,
            Curve::WorkingSet => ReuseCurve::WorkingSet,
        };
        picture.write_all(reuse_chart(&curve, which, setup, report::title(session)).as_bytes())?;
        picture.finish()?;
    }
    let mut out = Out::stdout();
    if args.json {
        curve_json(&curve, &mut out)?;
    } else {
        let look = out.look(args.wide);
        curve_text(&curve, look, &mut out)?;
    }
    out.finish()?;
    Ok(curve.missing)
}
