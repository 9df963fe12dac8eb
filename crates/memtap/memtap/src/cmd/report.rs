//! `memtap report`: who accesses what, how often.

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::machine::{self, Machine};
use analysis::stack::StackTally;
use analysis::{AccessRow, By, Session, has_stacks};
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use report::export::{Selection, export};
use report::pages::trace::TracePage;
use report::tables::machine::processes;
use report::tables::rows::{self, Rows};
use report::tables::stacks::stacks;
use symbols::{Module, SearchPath};

use crate::inputs;
use crate::output::{Out, note_problems};

/// What the rows of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grouping {
    /// A static variable or a heap block
    Variable,
    /// A function that makes accesses
    Function,
    /// A call that allocates
    Allocation,
    /// A page
    Page,
    /// A region
    Region,
    /// A thread
    Thread,
    /// A stack of functions: who called whom down to the access
    Stack,
    /// A process of the guest and its mode (a machine)
    Process,
}

/// Print who accesses what, most accessed first
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// What the rows are
    #[arg(long, value_enum, default_value = "variable")]
    by: Grouping,
    /// Split variables by field and element, where debug information tells them
    #[arg(long)]
    fields: bool,
    /// As a JSON array
    #[arg(long)]
    json: bool,
    /// Print only the first N rows
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// The file of a program of the guest, for its names (a machine; may be given several times)
    #[arg(long, value_name = "FILE")]
    guest_program: Vec<PathBuf>,
    /// Write everything as one HTML page
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = inputs::session(&args.file)?;
    let by = match args.by {
        Grouping::Variable if args.fields => By::Field,
        Grouping::Variable => By::Variable,
        Grouping::Function => By::Function,
        Grouping::Allocation => By::Allocation,
        Grouping::Page => By::Page,
        Grouping::Region => By::Region,
        Grouping::Thread => By::Thread,
        Grouping::Stack => return by_stack(&session, args),
        Grouping::Process => return by_process(&session, args),
    };
    if Machine::of(&session).is_some() && args.html.is_none() {
        match by {
            By::Function => return by_guest_name(&session, args, machine::Named::Function),
            By::Variable => return by_guest_name(&session, args, machine::Named::Variable),
            _ => {}
        }
    }
    if let Some(html) = &args.html {
        let mut page = Vec::new();
        export(&session, &Selection::default(), &mut TracePage, &mut page)?;
        std::fs::write(html, page).with_context(|| format!("{}: can't be written", html.display()))?;
        if !args.json {
            eprintln!("memtap: wrote {}", html.display());
            note_problems(&session);
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut rows = Rows { by, json: args.json, most: args.most() };
    let mut out = Out::stdout();
    export(&session, &Selection::default(), &mut rows, &mut out)?;
    out.finish()?;
    note_problems(&session);
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// How many rows are printed at most.
    fn most(&self) -> usize {
        self.top.unwrap_or(usize::MAX)
    }
}

/// Accesses and allocations by stack of functions.
fn by_stack(session: &Session, args: &Args) -> Result<ExitCode> {
    if !has_stacks(session) {
        bail!(
            "{}: has no accesses to stacks, and so no calls; record with memtap record --tracer translate",
            args.file.display()
        );
    }
    let mut tally = StackTally::new(session);
    session.replay(&Default::default(), None, &mut tally)?;
    let mut rows = tally.rows(session.names());
    rows.truncate(args.most());
    let mut out = Out::stdout();
    stacks(&rows, args.json, &mut out)?;
    out.finish()?;
    note_problems(session);
    Ok(ExitCode::SUCCESS)
}

/// A machine's accesses by process of the guest, kernel and user mode apart.
fn by_process(session: &Session, args: &Args) -> Result<ExitCode> {
    if Machine::of(session).is_none() {
        bail!("{}: --by process is for the trace of a machine (record --tracer qemu)", args.file.display());
    }
    let mut rows: Vec<_> = machine::by_process(session.trace())?.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(count.accesses()));
    rows.truncate(args.most());
    let mut out = Out::stdout();
    processes(&rows, args.json, &mut out)?;
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// A machine's accesses by function or variable: those of the guest's kernel, and of the programs whose files are given.
fn by_guest_name(session: &Session, args: &Args, named: machine::Named) -> Result<ExitCode> {
    let mut programs = Vec::new();
    for path in &args.guest_program {
        let shown = path.display();
        let module = Module::open(path, None, &SearchPath::default()).with_context(|| shown.to_string())?;
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let Some(program) = machine::GuestProgram::new(&name, module) else {
            bail!(
                "{shown}: is position-independent, so nothing says where it lay in the guest; link it with -no-pie"
            );
        };
        programs.push(program);
    }
    let counts = machine::by_name(session.trace(), named, &programs)?;
    let row = |((mode, name), count): ((machine::GuestMode, String), analysis::Count)| AccessRow {
        name,
        region: mode.name().to_owned(),
        count,
        size: 0,
        things: 1,
        line: None,
    };
    let mut rows: Vec<AccessRow> = counts.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.count.accesses().cmp(&a.count.accesses()).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(args.most());
    let mut out = Out::stdout();
    rows::write(&rows, args.json, &mut out)?;
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
