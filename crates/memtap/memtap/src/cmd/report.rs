//! `memtap report`: who accesses what, and how often.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::machine::{self, Machine};
use analysis::stack::{CountedStacks, SiteStyle, StackFigures, StackId, StackTable, StackTree};
use analysis::{
    AccessRow, By, Count, CountedRows, PairTally, Session, SortKey, Tally, Tool, Unused, coverage, has_stacks,
};
use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, ValueEnum};
use memref::ThreadId;
use report::export::{CallTree, Measure, Selection, export};
use report::flame::FlameGraph;
use report::pages::trace::TracePage;
use report::tables::choice::Choice;
use report::tables::machine::{
    initcalls_json, initcalls_text, process_names_json, process_names_text, processes, sorted_names,
};
use report::tables::pairs::{pairs_json, pairs_text};
use report::tables::rows::{Shown, rows_json, rows_text};
use report::tables::stacks::{stacks_json, stacks_text, unknown_words};
use report::tables::unused::{unused_json, unused_text};
use symbols::Resolver;

use super::dump::{TracePart, parse_part, parse_range};
use super::flame::{call_tree, guest_calls, told_guest_calls};
use crate::inputs;
use crate::new_file::NewFile;
use crate::output::{Out, note_problems};
use crate::progress::Reading;

/// Rows that people see of a table, unless they ask for more.
const TOP: usize = 20;

/// Stacks with a smaller part of all accesses are summed, unless one is asked for: a program of fewer than a million has all.
const MIN_SHARE: f64 = 0.000_001;

/// A part of a whole: `0.01%` or `0.0001`.
fn parse_share(text: &str) -> Result<f64, String> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent, 100.0));
    let share = number.trim().parse::<f64>().map(|number| number / whole);
    share
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "a part of all accesses is wanted, as 0.01% or 0.0001".to_owned())
}

/// What the rows of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grouping {
    /// A static variable or a heap block; for people the stack by function and local variable, too
    Variable,
    /// The same, as JSON with the stack by function and local variable, too
    Local,
    /// A variable's field or element, or a type's where a heap block has one
    Field,
    /// A type, of heap blocks and static variables
    Type,
    /// A function that makes accesses
    Function,
    /// A source line that makes accesses
    Line,
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
    /// A process of the guest and its mode, alone or with function or variable (a machine)
    Process,
    /// What the guest's kernel called to get ready (a machine)
    Initcall,
}

impl Grouping {
    /// Takes the name of a kind of rows that a program's trace has.
    pub(crate) fn of_programs() -> impl TypedValueParser<Value = Self> {
        let is_of_program = |kind: &&Self| !matches!(kind, Self::Process | Self::Initcall);
        let kinds = Self::value_variants().iter().filter(is_of_program);
        PossibleValuesParser::new(kinds.filter_map(Self::to_possible_value))
            .map(|name| Self::from_str(&name, false).expect("only the names of kinds are taken"))
    }
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SortBy {
    /// Loads, stores and modifies together
    #[default]
    Accesses,
    /// Loads
    Loads,
    /// Stores
    Stores,
    /// Read-modify-writes
    Modifies,
    /// Bytes that were read or written
    Bytes,
    /// The size of what was accessed
    Size,
    /// How many blocks a row stands for
    Count,
    /// The name
    Name,
}

impl From<SortBy> for SortKey {
    fn from(sort: SortBy) -> Self {
        match sort {
            SortBy::Accesses => Self::Accesses,
            SortBy::Loads => Self::Loads,
            SortBy::Stores => Self::Stores,
            SortBy::Modifies => Self::Modifies,
            SortBy::Bytes => Self::Bytes,
            SortBy::Size => Self::Size,
            SortBy::Count => Self::Things,
            SortBy::Name => Self::Name,
        }
    }
}

/// Show what is accessed most, and by whom
///
/// The table has the first 20 rows: the program's own first, then one row each for the dynamic linker, the C library and memtap. --json
/// has all rows, one by one.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// What each row stands for. With two kinds, as in variable,function, each row of the first has rows of the second below it
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND[,KIND]", default_value = "variable")]
    by: Vec<Grouping>,
    /// The same as --by field
    #[arg(long, hide = true)]
    fields: bool,
    /// Show allocations that were never read or never written instead, by the call that made them
    #[arg(long, conflicts_with_all = ["by", "sort", "html"])]
    unused: bool,

    /// Only rows whose name matches, as in *table*; with two kinds, whose first or second name matches
    #[arg(long, value_name = "GLOB", help_heading = "What is counted")]
    name: Option<String>,
    /// Only what belongs to this program or library: libc.so.6, libssl*
    #[arg(long, value_name = "GLOB", help_heading = "What is counted")]
    module: Option<String>,
    /// Only accesses of this thread, by its number in the trace
    #[arg(long, value_name = "N", help_heading = "What is counted")]
    thread: Option<u32>,
    /// Only accesses at these cycles of their thread
    #[arg(long, value_name = "A..B", value_parser = parse_range, help_heading = "What is counted")]
    cycles: Option<Range<u64>>,
    /// Only accesses to these addresses (0xA..0xB), or with these numbers in their thread (A..B)
    #[arg(long, value_name = "A..B", value_parser = parse_part, help_heading = "What is counted")]
    range: Option<TracePart>,
    /// The file of a program or library of the guest, for its names (a machine; may be given several times)
    #[arg(long, value_name = "FILE", help_heading = "What is counted")]
    guest_program: Vec<PathBuf>,

    /// Show this many functions of each allocation site, the allocating one first
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..),
          hide_default_value = true, help_heading = "What is shown")]
    stacks: u16,
    /// Take calls inside allocation wrappers (xmalloc) as allocation sites, too
    #[arg(long, help_heading = "What is shown")]
    no_skip: bool,
    /// How rows are sorted
    #[arg(long, value_enum, value_name = "KEY", default_value = "accesses", help_heading = "What is shown")]
    sort: SortBy,
    /// The first N rows [default: 20; with --json all]
    #[arg(long, value_name = "N", help_heading = "What is shown")]
    top: Option<usize>,
    /// With --by stack: combine stacks with less than this share of all accesses in one row (0.01%, 0.0001) [default: 0.0001%; with --all 0]
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "What is shown")]
    min_share: Option<f64>,
    /// Show all rows: each block by itself, and those that are not the program's own
    #[arg(long, help_heading = "What is shown")]
    all: bool,
    /// Do not cut names and figures to the width of the terminal
    #[arg(long, help_heading = "What is shown")]
    wide: bool,
    /// As a JSON array (docs/json.md)
    #[arg(long, help_heading = "What is shown")]
    json: bool,
    /// Write everything as one HTML page
    #[arg(long, value_name = "OUT", help_heading = "What is shown")]
    html: Option<PathBuf>,
    /// Replace the page if it exists
    #[arg(long, requires = "html", help_heading = "What is shown")]
    force: bool,
}

/// What a report is about, once the command line is understood.
enum Subject {
    One(By),
    Pair([By; 2]),
    Stack,
    Process,
    ProcessAnd(machine::Named),
    Initcall,
}

/// Ends with a wrong command line.
fn wrong(words: &str) -> ! {
    super::wrong_command_line("report", words)
}

impl Args {
    fn subject(&self) -> Subject {
        let by = |grouping: Grouping| match grouping {
            Grouping::Variable if self.fields => By::Field,
            Grouping::Variable => By::Variable,
            Grouping::Local => By::Local,
            Grouping::Field => By::Field,
            Grouping::Type => By::Type,
            Grouping::Function => By::Function,
            Grouping::Line => By::Line,
            Grouping::Allocation => By::Allocation,
            Grouping::Page => By::Page,
            Grouping::Region => By::Region,
            Grouping::Thread => By::Thread,
            Grouping::Stack => wrong("--by stack is a table of its own; it has no second kind of rows"),
            Grouping::Process => {
                wrong("--by process is the first kind of rows, the second function or variable")
            }
            Grouping::Initcall => wrong("--by initcall is a table of its own; it has no second kind of rows"),
        };
        if self.min_share.is_some() && *self.by.as_slice() != [Grouping::Stack] {
            wrong("--min-share is for --by stack");
        }
        match *self.by.as_slice() {
            [Grouping::Stack] => Subject::Stack,
            [Grouping::Process] => Subject::Process,
            [Grouping::Process, Grouping::Function] => Subject::ProcessAnd(machine::Named::Function),
            [Grouping::Process, Grouping::Variable] => Subject::ProcessAnd(machine::Named::Variable),
            [Grouping::Initcall] => Subject::Initcall,
            [one] => Subject::One(by(one)),
            [one, other] if one == other => wrong("--by: both kinds of rows are the same"),
            [one, other] => Subject::Pair([by(one), by(other)]),
            _ => wrong("--by: at most two kinds of rows"),
        }
    }

    /// How many rows are shown at most.
    fn most(&self) -> usize {
        let usual = if self.json || self.all { usize::MAX } else { TOP };
        self.top.unwrap_or(usual)
    }

    /// The part of all accesses below which a stack is no row of its own.
    fn min_share(&self) -> f64 {
        self.min_share.unwrap_or(if self.all { 0.0 } else { MIN_SHARE })
    }

    /// How allocation sites are named.
    fn sites(&self) -> SiteStyle {
        SiteStyle { frames: self.stacks.into(), skips: !self.no_skip }
    }

    /// Ends where options for allocation sites are given for tables that have none, or not in their context.
    fn check_sites(&self, session: &Session, by: &[By]) -> Result<()> {
        if self.sites() == SiteStyle::default() {
            return Ok(());
        }
        if !by.iter().any(|by| matches!(by, By::Allocation | By::Local)) {
            wrong("--stacks and --no-skip are for --by allocation and --by local");
        }
        if self.stacks > 1 && !has_stacks(session) {
            return no_stacks(self);
        }
        Ok(())
    }

    fn choice(&self) -> Choice {
        Choice { name: self.name.clone(), module: self.module.clone() }
    }

    /// Which accesses are counted.
    fn selection(&self) -> Selection {
        let mut selection = Selection {
            cycles: self.cycles.clone(),
            thread: self.thread.map(ThreadId),
            ..Selection::default()
        };
        if let Some(part) = &self.range {
            part.select(&mut selection);
        }
        selection
    }

    /// Who asks by name is shown what others see folded.
    fn shown(&self, by: By) -> Shown {
        let folded = !self.all && self.choice().is_all();
        Shown { by, sort: self.sort.into(), top: self.most(), all: self.all, folded }
    }

    /// Refuses tables that a machine's trace has nothing for, and ends where options choose what a table can't leave out.
    fn check_machine(&self, subject: &Subject) -> Result<()> {
        match subject {
            _ if self.unused => bail!("{}: a machine's trace has no allocations", self.file.display()),
            Subject::Process | Subject::ProcessAnd(_) | Subject::Initcall => self.needs_all_of_machine(false),
            Subject::Stack
            | Subject::One(By::Function | By::Variable)
            | Subject::Pair([By::Function, By::Variable] | [By::Variable, By::Function]) => {
                self.needs_all_of_machine(true);
            }
            Subject::One(By::Page | By::Thread)
            | Subject::Pair([By::Page, By::Thread] | [By::Thread, By::Page]) => {}
            _ => bail!(
                "{}: of a machine, accesses are counted --by process, function, variable, stack, initcall, page and thread, \
                 by process and function or variable, by function and variable, and by page and thread",
                self.file.display()
            ),
        }
        Ok(())
    }

    /// Ends where options choose what a machine's table can't leave out.
    fn needs_all_of_machine(&self, has_names: bool) {
        if self.thread.is_some() || self.cycles.is_some() || self.range.is_some() {
            wrong("of a machine this table is of the whole trace: leave --thread, --cycles and --range out");
        }
        if !has_names && (!self.choice().is_all() || !matches!(self.sort, SortBy::Accesses)) {
            wrong("this table has all rows in its own order: leave --name, --module and --sort out");
        }
    }

    /// The words that come before a table for people.
    fn begin(&self, session: &Session, out: &mut Out) -> Result<()> {
        if let Some(words) = coverage(session).filter(|_| !self.json) {
            out.line(&words)?;
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let subject = args.subject();
    let session = inputs::session(&args.file)?;
    if let Some(html) = &args.html {
        write_page(&session, args, html)?;
        if !args.json {
            say!("memtap: wrote {}", html.display());
            note_problems(&session);
            return Ok(ExitCode::SUCCESS);
        }
    }
    print(&session, args, subject, Out::stdout())?;
    note_problems(&session);
    Ok(ExitCode::SUCCESS)
}

/// Prints a table of one kind of rows for people, as `memtap report --by KIND FILE` does without other options.
pub(crate) fn print_by(session: &Session, by: Grouping, out: Out) -> Result<()> {
    let command_line = ["report".as_ref(), "--".as_ref(), session.trace().path().as_os_str()];
    let args = Args { by: vec![by], ..Args::parse_from(command_line) };
    print(session, &args, args.subject(), out)
}

/// Prints the table.
fn print(session: &Session, args: &Args, subject: Subject, out: Out) -> Result<()> {
    let is_machine = Machine::of(session).is_some();
    let split = |by| match by {
        By::Variable if !args.json && !is_machine && has_stacks(session) => By::Local,
        by => by,
    };
    if is_machine {
        args.check_machine(&subject)?;
    }
    match subject {
        _ if args.unused => by_use(session, args, out),
        Subject::Stack if is_machine => by_guest_stack(session, args, out),
        Subject::Stack => by_stack(session, args, out),
        Subject::Process | Subject::ProcessAnd(_) | Subject::Initcall if !is_machine => {
            bail!(
                "{}: --by process and --by initcall are for the trace of a machine (record --tracer qemu)",
                args.file.display()
            )
        }
        Subject::Process => by_process(session, args, out),
        Subject::ProcessAnd(named) => by_process_and_name(session, args, named, out),
        Subject::Initcall => by_initcall(session, args, out),
        Subject::One(By::Function) if is_machine => {
            by_guest_name(session, args, machine::Named::Function, out)
        }
        Subject::One(By::Variable) if is_machine => {
            by_guest_name(session, args, machine::Named::Variable, out)
        }
        Subject::One(by) => by_one(session, args, split(by), out),
        Subject::Pair(by) if is_machine && by[0] != By::Page && by[0] != By::Thread => {
            by_guest_two(session, args, by, out)
        }
        Subject::Pair(by) => by_two(session, args, by, by.map(split), out),
    }
}

fn write_page(session: &Session, args: &Args, html: &std::path::Path) -> Result<()> {
    let mut file = NewFile::create(html, args.force)?;
    let mut page = Vec::new();
    let reading = Reading::of(session);
    let mut parts = TracePage::default();
    if Machine::of(session).is_some() {
        let programs = inputs::guest_programs(&args.guest_program)?;
        let places = inputs::guest_places(session.trace(), &programs)?;
        let tree = told_guest_calls(session, &places)?.map(|calls| CallTree::of_guest(&calls));
        parts.flame = tree.map(|tree| FlameGraph::of(session, &tree, Measure::Accesses).svg());
        parts.guest = Some(machine::GuestLinks::of(session.trace(), &places)?);
    } else if has_stacks(session) {
        let tree = call_tree(session, &args.file, Measure::Accesses, &[])?;
        parts.flame = Some(FlameGraph::of(session, &tree, Measure::Accesses).svg());
    }
    export(session, &Selection::default(), &mut parts, &mut page)?;
    drop(reading);
    file.write_all(&page).with_context(|| format!("{}: can't be written", html.display()))?;
    file.finish()
}

/// Replays all of a trace, or of one thread.
fn replay<T: Tool>(session: &Session, args: &Args, tool: &mut T) -> Result<Vec<Resolver>> {
    let _reading = Reading::of(session);
    Ok(session.replay(&Default::default(), args.thread.map(ThreadId), tool)?)
}

/// A filter let nothing through: programs get an empty array, people near names.
fn nothing(args: &Args, words: &str, mut out: Out) -> Result<()> {
    if args.json {
        out.line("[]")?;
        out.finish()?;
    }
    bail!("{}: {words}", args.file.display());
}

/// A table of one kind of rows.
fn by_one(session: &Session, args: &Args, by: By, out: Out) -> Result<()> {
    if by == By::Local && !has_stacks(session) {
        return no_stacks(args);
    }
    args.check_sites(session, &[by])?;
    let reading = Reading::of(session);
    let mut tally = Tally::new(session, &[by])?.with_sites(args.sites());
    let resolvers = tally.replay(session, &args.selection().part())?;
    drop(reading);
    let table = tally.table(by, session, &resolvers);
    show_rows(session, args, table, by, out)
}

/// Writes the rows that are asked for.
fn show_rows(
    session: &Session,
    args: &Args,
    CountedRows { mut rows, total }: CountedRows,
    by: By,
    mut out: Out,
) -> Result<()> {
    SortKey::from(args.sort).sort(&mut rows);
    let mut rows = match args.choice().rows(rows) {
        Ok(rows) => rows,
        Err(words) => return nothing(args, &words, out),
    };
    args.begin(session, &mut out)?;
    if args.json {
        rows.truncate(args.most());
        rows_json(&rows, &mut out)?;
    } else {
        let look = out.look(args.wide);
        rows_text(rows, total, &args.shown(by), look, &mut out)?;
    }
    out.finish()
}

/// A table of two kinds of rows. `asked` is what the command line says, `by` what that means here.
fn by_two(session: &Session, args: &Args, asked: [By; 2], by: [By; 2], mut out: Out) -> Result<()> {
    if by.contains(&By::Local) && !has_stacks(session) {
        return no_stacks(args);
    }
    args.check_sites(session, &by)?;
    let reading = Reading::of(session);
    let mut tally = PairTally::new(session, by)?.with_sites(args.sites());
    let resolvers = tally.replay(session, &args.selection().part())?;
    drop(reading);
    let rows = tally.rows(session, &resolvers, args.sort.into());
    let mut total = Count::default();
    rows.iter().for_each(|row| total += row.second.count);
    let total = total.without(tally.shared());
    let mut rows = match args.choice().pairs(rows) {
        Ok(rows) => rows,
        Err(words) => return nothing(args, &words, out),
    };
    args.begin(session, &mut out)?;
    if args.json {
        rows.truncate(args.most());
        pairs_json(&rows, asked, &mut out)?;
    } else {
        let look = out.look(args.wide);
        pairs_text(rows, total, by, &args.shown(by[0]), look, &mut out)?;
    }
    out.finish()
}

/// Who accesses what in a machine.
fn by_guest_two(session: &Session, args: &Args, by: [By; 2], mut out: Out) -> Result<()> {
    if !matches!(args.sort, SortBy::Accesses) {
        wrong("this table of a machine has its own order: leave --sort out");
    }
    let programs = inputs::guest_programs(&args.guest_program)?;
    let links = {
        let _reading = Reading::of(session);
        let places = inputs::guest_places(session.trace(), &programs)?;
        machine::GuestLinks::of(session.trace(), &places)?
    };
    let mut total = Count::default();
    links.pairs.iter().for_each(|(_, count)| total += *count);
    let mut rows = match args.choice().pairs(links.rows(by[0] == By::Variable)) {
        Ok(rows) => rows,
        Err(words) => return nothing(args, &words, out),
    };
    if args.json {
        rows.truncate(args.most());
        pairs_json(&rows, by, &mut out)?;
    } else {
        let look = out.look(args.wide);
        pairs_text(rows, total, by, &args.shown(by[0]), look, &mut out)?;
    }
    out.finish()
}

/// Allocations that nobody used.
fn by_use(session: &Session, args: &Args, mut out: Out) -> Result<()> {
    if args.thread.is_some() || args.cycles.is_some() || args.range.is_some() {
        wrong(
            "--unused: a part of a trace can't tell that something was never read; leave --thread, --cycles and --range out",
        );
    }
    if args.stacks > 1 && !has_stacks(session) {
        return no_stacks(args);
    }
    let mut tool = Unused::new(session);
    let resolvers = replay(session, args, &mut tool)?;
    let choice = args.choice();
    let mut rows = match choice.unused(tool.rows(session, &resolvers, args.sites())) {
        Ok(rows) => rows,
        Err(words) => return nothing(args, &words, out),
    };
    if args.json {
        rows.truncate(args.most());
        unused_json(&rows, &mut out)?;
    } else {
        let look = out.look(args.wide);
        unused_text(&rows, args.most(), args.all || !choice.is_all(), look, &mut out)?;
    }
    out.finish()?;
    if tool.missing > 0 {
        say!(
            "memtap: note: {} from the trace; what is never read here may have been read there",
            report::missing(tool.missing)
        );
    }
    Ok(())
}

/// A report that needs stacks, of a trace without them.
fn no_stacks(args: &Args) -> Result<()> {
    bail!(
        "{}: has no accesses to stacks, so calls are unknown; record with memtap record --tracer translate",
        args.file.display()
    );
}

/// Accesses and allocations by stack of functions.
fn by_stack(session: &Session, args: &Args, out: Out) -> Result<()> {
    if !has_stacks(session) {
        return no_stacks(args);
    }
    let counted = {
        let _reading = Reading::of(session);
        StackTable::count(session, &args.selection().part(), args.min_share())?
    };
    stack_rows(session, args, counted, out)
}

/// A machine's accesses by stack of functions.
fn by_guest_stack(session: &Session, args: &Args, out: Out) -> Result<()> {
    let calls = guest_calls(session, &args.file, &args.guest_program)?;
    let mut tree = StackTree::default();
    let mut stacks = vec![StackId::BEGIN];
    for node in calls.nodes.iter().skip(1) {
        let stack = tree.callee(stacks[node.caller as usize], &node.name, None);
        tree.add(stack, StackFigures { count: node.count, ..StackFigures::default() });
        stacks.push(stack);
    }
    stack_rows(session, args, CountedStacks::of(tree, args.min_share()), out)
}

/// Writes rows of stacks.
fn stack_rows(session: &Session, args: &Args, counted: CountedStacks, mut out: Out) -> Result<()> {
    let mut rows = match args.choice().stacks(counted) {
        Ok(rows) => rows,
        Err(words) => return nothing(args, &words, out),
    };
    let figure = |figures: &StackFigures| match args.sort {
        SortBy::Accesses | SortBy::Name => figures.count.accesses(),
        SortBy::Loads => figures.count.loads,
        SortBy::Stores => figures.count.stores,
        SortBy::Modifies => figures.count.modifies,
        SortBy::Bytes => figures.count.bytes,
        SortBy::Size => figures.allocated_bytes,
        SortBy::Count => figures.allocations,
    };
    match args.sort {
        SortBy::Name => rows.sort_by_name(),
        _ => rows.rows.sort_by_key(|row| std::cmp::Reverse(figure(&row.figures))),
    }
    if args.json {
        stacks_json(&rows, args.most(), &mut out)?;
    } else {
        args.begin(session, &mut out)?;
        let look = out.look(args.wide);
        stacks_text(&rows, args.most(), look, &mut out)?;
    }
    out.finish()?;
    if let Some(unknown) = &rows.unknown {
        say!("memtap: note: {}", unknown_words(unknown));
    }
    Ok(())
}

/// A machine's accesses by process of the guest, kernel and user mode apart.
fn by_process(session: &Session, args: &Args, mut out: Out) -> Result<()> {
    let mut rows: Vec<_> = machine::by_process(session.trace())?.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(count.accesses()));
    rows.truncate(args.most());
    processes(&rows, args.json, &mut out)?;
    out.finish()
}

/// What the guest's kernel called to get ready.
fn by_initcall(session: &Session, args: &Args, mut out: Out) -> Result<()> {
    let tree = guest_calls(session, &args.file, &args.guest_program)?;
    let instructions = tree.totals().first().map_or(0, |total| total.instructions);
    let mut rows = machine::initcalls(&tree, &machine::GuestSymbols::of(session.trace())?);
    if args.json {
        rows.truncate(args.most());
        initcalls_json(&rows, &mut out)?;
    } else {
        let look = out.look(args.wide);
        initcalls_text(&rows, instructions, args.most(), look, &mut out)?;
    }
    out.finish()
}

/// A machine's accesses by process and, of each, by function or variable.
fn by_process_and_name(session: &Session, args: &Args, named: machine::Named, mut out: Out) -> Result<()> {
    let programs = inputs::guest_programs(&args.guest_program)?;
    let counts = {
        let _reading = Reading::of(session);
        let places = inputs::guest_places(session.trace(), &programs)?;
        machine::by_process_and_name(session.trace(), named, &places)?
    };
    let rows = sorted_names(counts);
    if args.json {
        let kind = if named == machine::Named::Function { "function" } else { "variable" };
        process_names_json(&rows, kind, args.most(), &mut out)?;
    } else {
        let look = out.look(args.wide);
        process_names_text(&rows, args.most(), look, &mut out)?;
    }
    out.finish()
}

/// A machine's accesses by function or variable: those of the guest's kernel, and of the programs whose files are given.
fn by_guest_name(session: &Session, args: &Args, named: machine::Named, out: Out) -> Result<()> {
    let programs = inputs::guest_programs(&args.guest_program)?;
    let counts = {
        let _reading = Reading::of(session);
        let places = inputs::guest_places(session.trace(), &programs)?;
        machine::by_name(session.trace(), named, &places)?
    };
    let row = |((mode, name), count): ((machine::GuestMode, String), analysis::Count)| AccessRow {
        name,
        region: mode.name().to_owned(),
        count,
        size: 0,
        things: 1,
        ..AccessRow::default()
    };
    let rows = counts.into_iter().map(row).collect();
    show_rows(session, args, CountedRows::apart(rows), By::Variable, out)
}
