//! `memtap layout`: types of heap blocks and of variables, and how their fields are used.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use analysis::Session;
use analysis::layout::{HeapTypes, OffsetUses, TypeUse, TypeUses};
use anyhow::Result;
use clap::Parser;
use report::tables::layouts::{layouts_json, layouts_text};
use report::tables::offsets::{offsets_json, offsets_text};

use super::limit::Limit;
use crate::inputs;
use crate::output::{Out, note_problems};

/// A limit that was asked for is passed.
const PASSED: u8 = 3;

/// Where fewer of the accesses have a type, people are shown the blocks without one, too.
const MOSTLY_TYPED: f64 = 0.5;

/// Show the types of heap blocks and variables, and how each field is used: hot, never read, holes, what to split off
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// Only this type
    #[arg(long = "type", value_name = "T")]
    only: Option<String>,
    /// Show blocks without a known type instead, by allocating call and size, and which offsets in them are used. The table also shows
    /// this if most accesses are to such blocks
    #[arg(long, conflicts_with_all = ["only", "fail_if"])]
    offsets: bool,
    /// Show members that are structures as one field each
    #[arg(long, conflicts_with = "offsets")]
    flat: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Show this many types
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Exit with status 3 if a type exceeds a limit: bytes, holes, unread (bytes that are never read), blocks, accesses or confidence
    /// with < or > and a number; for one type, as in Cell.bytes>64 (may be given several times)
    #[arg(long, value_name = "EXPR")]
    fail_if: Vec<Limit>,
    /// Wider than the terminal
    #[arg(long)]
    wide: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = inputs::program_session(&args.file, "layout")?;
    let heap = session.heap_blocks()?;
    if args.offsets {
        by_offset(&session, heap, args)?;
        note_problems(&session);
        return Ok(ExitCode::SUCCESS);
    }
    let uses = TypeUses::new(&session, Arc::clone(&heap));
    let uses = if args.flat { uses.flat() } else { uses }.replay(&session)?;
    let (covered, in_variables, missing) = (uses.covered(), uses.in_variables(), heap.missing());
    let in_mappings = uses.in_mappings();
    let (share, has_debug_info) = (heap.share(), heap.has_debug_info());
    let mut types = uses.types_used();
    if let Some(only) = &args.only {
        types.retain(|one| one.name == *only || one.name.rsplit([':', '.']).next() == Some(only));
        if types.is_empty() {
            anyhow::bail!(
                "{}: no accessed heap block or variable has the type {only}; memtap layout without --type shows all types",
                args.file.display()
            );
        }
    }
    // First how much of it is known: the tables may be long.
    if !has_debug_info && share.accesses > 0 {
        say!(
            "memtap: note: the code that accesses heap blocks has no debug information, so nothing has a type; build with -g"
        );
    } else if share.accesses > 0 {
        let percent = |part: u64| part as f64 * 100.0 / share.accesses as f64;
        say!(
            "memtap: {:.1} % of {} accesses to heap blocks have a type ({:.1} % by a variable, {:.1} % by following pointers, the rest by their blocks); {:.1} % of those that know one say another than their block has",
            covered * 100.0,
            report::grouped(share.accesses),
            percent(share.by_variable),
            percent(share.by_flow),
            heap.doubt() * 100.0
        );
    }
    if in_mappings > 0 {
        say!(
            "memtap: {} to objects in memory that the program mapped itself, too",
            report::amount(in_mappings, "access")
        );
    }
    if in_variables > 0 {
        say!(
            "memtap: {} to static and local variables that are structures or arrays of them, too",
            report::amount(in_variables, "access")
        );
    }
    let mut out = Out::stdout();
    if args.json {
        layouts_json(&types, &mut out)?;
    } else {
        let look = out.look(args.wide);
        layouts_text(&types, args.top, look, &mut out)?;
    }
    out.finish()?;
    // Programs ask for what they want.
    if covered < MOSTLY_TYPED && share.accesses > 0 && !args.json && args.only.is_none() {
        by_offset(&session, heap, args)?;
    }
    note_problems(&session);
    if missing > 0 {
        say!("memtap: note: {} from the trace; fields may be used more than shown", report::missing(missing));
    }
    Ok(passed(&args.fail_if, &types))
}

/// Blocks without a type, by place.
fn by_offset(session: &Session, heap: Arc<HeapTypes>, args: &Args) -> Result<()> {
    let mut uses = OffsetUses::new(session, heap);
    let resolvers = session.replay(&Default::default(), None, &mut uses)?;
    let missing = uses.missing;
    let sites = uses.sites(session, &resolvers);
    let mut out = Out::stdout();
    if args.json {
        offsets_json(&sites, &mut out)?;
    } else {
        let look = out.look(args.wide);
        offsets_text(&sites, args.top, look, &mut out)?;
    }
    out.finish()?;
    if missing > 0 {
        say!("memtap: note: {} from the trace; places may be used more than shown", report::missing(missing));
    }
    Ok(())
}

fn passed(limits: &[Limit], types: &[TypeUse]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for limit in limits {
        for (one, value) in types.iter().filter_map(|one| Some((one, limit.passed_by(one)?))) {
            say!("memtap: {}: {} is {value}, which {limit} forbids", one.name, limit.figure());
            code = ExitCode::from(PASSED);
        }
    }
    code
}
