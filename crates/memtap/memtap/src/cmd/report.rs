//! `memtap report`: who accesses what, how often.

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::machine::{self, Machine};
use analysis::{By, Row, Session, Stale, Summary, Tally, coverage};
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use report::heatmap::{Layout, MapRegion, Only, to_svg};
use report::pages::trace::{Content, to_html};
use serde_json::{Value, json};
use symbols::{Module, SearchPath};

use crate::output::{Out, grouped, note_problems};

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
    let session = Session::open(&args.file)?;
    let by = match args.by {
        Grouping::Variable if args.fields => By::Field,
        Grouping::Variable => By::Variable,
        Grouping::Function => By::Function,
        Grouping::Allocation => By::Allocation,
        Grouping::Page => By::Page,
        Grouping::Region => By::Region,
        Grouping::Thread => By::Thread,
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
        write_page(&session, html)?;
        if !args.json {
            eprintln!("memtap: wrote {}", html.display());
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut tally = Tally::new(&[by]);
    let resolvers = session.replay(&Default::default(), None, &mut tally)?;
    let mut rows = tally.rows(by, &session, &resolvers);
    rows.truncate(args.top.unwrap_or(usize::MAX));
    let mut out = Out::stdout();
    if args.json {
        let rows: Vec<Value> = rows.iter().map(to_json).collect();
        out.line(&serde_json::to_string_pretty(&rows)?)?;
    } else {
        if let Some(words) = coverage(&session) {
            out.line(&words)?;
        }
        print(&mut out, &rows)?;
    }
    out.finish()?;
    note_problems(&session);
    Ok(ExitCode::SUCCESS)
}

/// A machine's accesses by process of the guest, kernel and user mode apart.
fn by_process(session: &Session, args: &Args) -> Result<ExitCode> {
    if Machine::of(session).is_none() {
        bail!("{}: --by process is for the trace of a machine (record --tracer qemu)", args.file.display());
    }
    let mut rows: Vec<_> = machine::by_process(session.trace())?.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(count.accesses()));
    rows.truncate(args.top.unwrap_or(usize::MAX));
    let mut out = Out::stdout();
    if args.json {
        let row = |((owner, mode), count): &((machine::Owner, machine::Mode), analysis::Count)| {
            json!({
                "name": owner.name, "process": owner.process, "mode": mode.name(), "loads": count.loads,
                "stores": count.stores, "modifies": count.modifies, "bytes": count.bytes,
            })
        };
        out.line(&serde_json::to_string_pretty(&rows.iter().map(row).collect::<Vec<_>>())?)?;
    } else {
        out.line(&format!(
            "{:>14} {:>14} {:>14} {:>16}  {:<8} {:>7} process",
            "loads", "stores", "modifies", "bytes", "mode", "pid"
        ))?;
        for ((owner, mode), count) in &rows {
            let [loads, stores, modifies, bytes] =
                [count.loads, count.stores, count.modifies, count.bytes].map(grouped);
            let process = owner.process.map_or_else(|| "-".to_owned(), |process| process.to_string());
            out.line(&format!(
                "{loads:>14} {stores:>14} {modifies:>14} {bytes:>16}  {:<8} {process:>7} {}",
                mode.name(),
                owner.name
            ))?;
        }
    }
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
    let row = |((mode, name), count): ((machine::Mode, String), analysis::Count)| Row {
        name,
        region: mode.name().to_owned(),
        count,
        size: 0,
        things: 1,
        line: None,
    };
    let mut rows: Vec<Row> = counts.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.count.accesses().cmp(&a.count.accesses()).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(args.top.unwrap_or(usize::MAX));
    let mut out = Out::stdout();
    if args.json {
        let rows: Vec<Value> = rows.iter().map(to_json).collect();
        out.line(&serde_json::to_string_pretty(&rows)?)?;
    } else {
        print(&mut out, &rows)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn to_json(row: &Row) -> Value {
    json!({
        "name": row.name,
        "region": row.region,
        "loads": row.count.loads,
        "stores": row.count.stores,
        "modifies": row.count.modifies,
        "bytes": row.count.bytes,
        "size": row.size,
        "things": row.things,
        "line": row.line,
    })
}

fn print(out: &mut Out, rows: &[Row]) -> Result<()> {
    out.line(&format!(
        "{:>14} {:>14} {:>14} {:>16}  {:<8} name",
        "loads", "stores", "modifies", "bytes", "memory"
    ))?;
    for row in rows {
        let count = &row.count;
        let [loads, stores, modifies, bytes] =
            [count.loads, count.stores, count.modifies, count.bytes].map(grouped);
        let line = row.line.as_deref().map_or_else(String::new, |line| format!("  ({line})"));
        let things =
            if row.things > 1 { format!("  [{} of them]", grouped(row.things)) } else { String::new() };
        out.line(&format!(
            "{loads:>14} {stores:>14} {modifies:>14} {bytes:>16}  {:<8} {}{things}{line}",
            row.region, row.name
        ))?;
    }
    Ok(())
}

fn write_page(session: &Session, path: &std::path::Path) -> Result<()> {
    let wanted = [By::Variable, By::Function, By::Allocation, By::Page];
    let mut tools = (Tally::new(&wanted), (Stale::default(), Summary::default()));
    let resolvers = session.replay(&Default::default(), None, &mut tools)?;
    let (tally, (stale, summary)) = tools;
    let rows = |by| tally.rows(by, session, &resolvers);
    let tables = [
        ("Variables and blocks", "size", rows(By::Variable)),
        ("Functions", "", rows(By::Function)),
        ("Allocation sites", "bytes allocated", rows(By::Allocation)),
    ];
    let properties = session.trace().properties();
    let title = properties.get("args").or(properties.get("program")).map_or("trace", |args| args);
    let map = Layout::new(title, &MapRegion::all(&resolvers), tally.pages(), Only::All);
    let heatmap = to_svg(&map);
    let coverage = coverage(session);
    let content = Content {
        title,
        coverage: coverage.as_deref(),
        summary: &summary,
        tables: &tables,
        stale: &stale,
        heatmap: &heatmap,
    };
    std::fs::write(path, to_html(&content)).with_context(|| format!("{}: can't be written", path.display()))
}
