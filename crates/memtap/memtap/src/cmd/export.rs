//! `memtap export`: a trace in the formats of other tools. The formats are in `report`.

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::flow::UnknownInstructions;
use analysis::machine::Machine;
use analysis::stack::StackTally;
use analysis::{BlockUses, DataTally, Session, Timeline};
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use report::export::{
    CallTree, Measure, callgrind, dhat, drmemtrace, firefox, folded, otlp, perfetto, pprof,
};
use report::flame::FlameGraph;
use report::grouped;

use super::flame::{call_tree, needs_stacks};
use super::sql;
use crate::inputs;
use crate::new_file::{NewDirectory, Output};
use crate::output::note_problems;
use crate::progress::Reading;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One line per call stack, with its accesses: for flame graph tools and speedscope
    Folded,
    /// A Callgrind profile with calls, lines and data: for KCachegrind and callgrind_annotate
    Callgrind,
    /// How heap blocks are used, by allocating stack: for DHAT's viewer, dh_view.html
    Dhat,
    /// Accesses and allocations by stack: for pprof, Grafana Pyroscope and speedscope (binary)
    Pprof,
    /// The same, as OpenTelemetry's profiles (OTLP, v1development): for collectors and what is behind them (binary)
    Otlp,
    /// Functions, accesses and the heap over time: for ui.perfetto.dev (binary)
    Perfetto,
    /// Functions, accesses and the heap over time, as samples weighted by accesses: for profiler.firefox.com
    Firefox,
    /// Every executed instruction with its accesses, one file per thread in the directory OUT: for DynamoRIO's drmemtrace tools (binary;
    /// needs record --flow full)
    Drmemtrace,
    /// A table or the result of a query, as Parquet: for DuckDB, polars, Spark and others (binary; needs memtap-sql)
    Parquet,
}

impl ExportFormat {
    /// Whether it is no text.
    fn is_binary(self) -> bool {
        matches!(self, Self::Pprof | Self::Otlp | Self::Perfetto | Self::Drmemtrace | Self::Parquet)
    }
}

/// Convert a trace to another tool's format
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// The format
    #[arg(long, value_enum)]
    format: ExportFormat,
    /// The file to write; - is standard output. For drmemtrace a directory, which must not exist yet
    #[arg(short, long, value_name = "OUT", value_parser = crate::new_file::name())]
    output: PathBuf,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    /// With parquet: the table; docs/tables.md lists all [default: accesses]
    #[arg(long, value_name = "NAME", conflicts_with = "query")]
    table: Option<String>,
    /// With parquet: an SQL query whose rows are written
    #[arg(long, value_name = "SQL")]
    query: Option<String>,
}

/// `symbols` and `strict` are options that all commands have.
pub(crate) fn run(args: &Args, symbols: &[PathBuf], strict: bool) -> Result<ExitCode> {
    super::refuse_same(&args.file, &args.output)?;
    if args.format != ExportFormat::Parquet && (args.table.is_some() || args.query.is_some()) {
        bail!("--table and --query are for --format parquet");
    }
    if args.format.is_binary() && args.output.as_os_str() == "-" {
        bail!("this is a binary format; name a file with -o");
    }
    if args.format == ExportFormat::Parquet {
        let table = args.table.as_deref().unwrap_or("accesses");
        let query =
            args.query.clone().unwrap_or_else(|| format!("SELECT * FROM \"{}\"", table.replace('"', "\"\"")));
        let rows = sql::Args::parquet(&args.file, &query, &args.output, args.force);
        return sql::run(&rows, symbols, strict);
    }
    let session = inputs::session(&args.file)?;
    if args.format == ExportFormat::Drmemtrace {
        return instructions(&session, args);
    }
    let is_machine = Machine::of(&session).is_some();
    let by_stack = matches!(args.format, ExportFormat::Folded | ExportFormat::Pprof | ExportFormat::Otlp);
    if is_machine && !by_stack {
        bail!(
            "{}: is the trace of a machine, whose calls can only be written as folded, pprof or otlp",
            args.file.display()
        );
    }
    if !is_machine {
        needs_stacks(&session, &args.file)?;
    }
    let mut output = Output::create(&args.output, args.force)?;
    let names = session.names();
    match args.format {
        ExportFormat::Folded => {
            let tree = call_tree(&session, &args.file, Measure::Accesses, &[])?;
            folded(&FlameGraph::of(&session, &tree, Measure::Accesses), &mut output)?;
        }
        ExportFormat::Callgrind => {
            let mut tools = (StackTally::new(&session), DataTally::default());
            session.replay(&Default::default(), None, &mut tools)?;
            let mut tree = CallTree::new();
            tree.count(names, &tools.0);
            callgrind(&session, &tree, &tools.1, &mut output)?;
        }
        ExportFormat::Dhat => {
            let mut uses = BlockUses::new(&session);
            session.replay(&Default::default(), None, &mut uses)?;
            dhat(&session, &uses, &mut output)?;
        }
        ExportFormat::Pprof => pprof(&session, &whole_tree(&session, args)?, &mut output)?,
        ExportFormat::Otlp => otlp(&session, &whole_tree(&session, args)?, &mut output)?,
        ExportFormat::Perfetto => perfetto(&session, &timeline(&session)?, &mut output)?,
        ExportFormat::Firefox => firefox(&session, &timeline(&session)?, &mut output)?,
        ExportFormat::Drmemtrace | ExportFormat::Parquet => unreachable!("these are written above"),
    }
    output.finish()?;
    note_problems(&session);
    Ok(ExitCode::SUCCESS)
}

/// Accesses, allocations and what is never freed, by stack; of a machine accesses alone.
fn whole_tree(session: &Session, args: &Args) -> Result<CallTree> {
    if Machine::of(session).is_some() {
        return call_tree(session, &args.file, Measure::Accesses, &[]);
    }
    let mut tools = (StackTally::new(session), BlockUses::new(session));
    session.replay(&Default::default(), None, &mut tools)?;
    let mut tree = CallTree::new();
    tree.count(session.names(), &tools.0);
    tree.add_live(session.names(), &tools.1);
    Ok(tree)
}

/// A directory with what each thread executed.
fn instructions(session: &Session, args: &Args) -> Result<ExitCode> {
    let file = args.file.display();
    if Machine::of(session).is_some() {
        bail!("{file}: is of a machine, whose code is in no file; --format drmemtrace is for programs");
    }
    let directory = NewDirectory::create(&args.output)?;
    let unknown = {
        let _reading = Reading::of(session);
        drmemtrace(session, directory.filled()).with_context(|| file.to_string())?
    };
    directory.finish()?;
    let UnknownInstructions { instructions, accesses } = unknown;
    if instructions + accesses > 0 {
        say!(
            "memtap: note: {} instructions are left out (functions that are one event, as malloc, and code in no file), and {} accesses of theirs",
            grouped(instructions),
            grouped(accesses)
        );
    }
    note_problems(session);
    Ok(ExitCode::SUCCESS)
}

/// What each thread did over its time.
fn timeline(session: &Session) -> Result<Timeline> {
    let mut timeline = Timeline::new(session);
    session.replay(&Default::default(), None, &mut timeline)?;
    timeline.finish();
    Ok(timeline)
}
