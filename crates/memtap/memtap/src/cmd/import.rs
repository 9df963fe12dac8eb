//! `memtap import`: converts traces of other tools.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use memref::{Access, AccessKind, ProcessId, VirtAddr};
use trace_format::{
    CreateOptions, DataAccess, ProcessRecord, ShardWriter, SimEntry, SimStore, SimStream, ThreadRecord,
    TraceWriter,
};

/// Whose form the input has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// 32 bytes per access, binary: cycle and size, instruction, address, data
    Entries64,
    /// What valgrind --tool=lackey --trace-mem=yes prints
    Lackey,
    /// A store of Simutrace 3: each of its memory streams becomes a thread
    Simtrace,
}

/// Convert another tool's trace to memtap's format
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The input's format
    #[arg(long, value_enum)]
    format: Format,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
    /// The input, or - for standard input
    input: String,
    /// The trace to write
    #[arg(short, long, value_name = "FILE", value_parser = crate::new_file::name())]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.format == Format::Simtrace {
        return create(args, true, |trace| simtrace(args, trace));
    }
    let mut input: Box<dyn BufRead> = if args.input == "-" {
        Box::new(BufReader::with_capacity(1 << 20, std::io::stdin()))
    } else {
        let file = File::open(&args.input).with_context(|| format!("{}: can't be opened", args.input))?;
        Box::new(BufReader::with_capacity(1 << 20, file))
    };
    create(args, args.format == Format::Entries64, |trace| import(args, &mut *input, trace))
}

/// Nobody waits for the entries, so long segments cost nothing but memory.
const SEGMENT_ENTRIES: usize = 1 << 21;

/// Creates the trace, has it filled and closes it; one that could not be filled is removed.
fn create(args: &Args, data: bool, fill: impl FnOnce(&TraceWriter) -> Result<()>) -> Result<ExitCode> {
    let (force, segment_entries) = (args.force, SEGMENT_ENTRIES);
    let options = CreateOptions { force, segment_entries, data, ..Default::default() };
    let trace = TraceWriter::create(&args.output, options)?;
    let result = fill(&trace).and_then(|()| Ok(trace.clone().finish()?));
    if result.is_err() {
        let _ = std::fs::remove_file(&args.output);
    }
    result.map(|()| ExitCode::SUCCESS)
}

/// Says where the trace is from, and adds its process.
fn describe(args: &Args, trace: &TraceWriter, tracer: &str) -> Result<ProcessId> {
    let name = Path::new(&args.input).file_name().map_or_else(|| "-".into(), |name| name.to_string_lossy());
    trace.set_property("program", &name)?;
    trace.set_property("tracer", tracer)?;
    Ok(trace.add_process(&ProcessRecord { exe: name.into_owned(), ..Default::default() })?)
}

fn import(args: &Args, input: &mut dyn BufRead, trace: &TraceWriter) -> Result<()> {
    let (tracer, format) = match args.format {
        Format::Lackey => ("imported lackey", lackey as fn(&mut dyn BufRead, &mut ShardWriter) -> Result<()>),
        _ => ("imported entries64", entries64 as _),
    };
    let process = describe(args, trace, tracer)?;
    let thread = trace.add_thread(&ThreadRecord { process, ..Default::default() })?;
    let mut shard = trace.shard(thread)?;
    format(input, &mut shard).with_context(|| args.input.clone())
}

/// Each memory stream becomes a thread: Simutrace keeps reads, writes and processors apart by streams alone.
fn simtrace(args: &Args, trace: &TraceWriter) -> Result<()> {
    let mut store = SimStore::open(&args.input)?;
    if store.streams().is_empty() {
        bail!("{}: has no memory stream", args.input);
    }
    let process = describe(args, trace, "imported simtrace")?;
    for number in 0..store.streams().len() {
        let stream = store.streams()[number].clone();
        let thread = trace.add_thread(&ThreadRecord { process, ..Default::default() })?;
        trace.set_property(&format!("stream of thread {}", thread.0), &stream.name)?;
        let mut shard = trace.shard(thread)?;
        let mut entries = Vec::new();
        for segment in 0..stream.segments() {
            entries.clear();
            store.read_segment(number, segment, |entry| entries.push(data_access(&stream, &entry)))?;
            shard.push_data_accesses(&entries)?;
        }
    }
    Ok(())
}

fn data_access(stream: &SimStream, entry: &SimEntry) -> DataAccess {
    let full = entry.tag & 1 != 0;
    let word = stream.bits / 8;
    let half = stream.bits / 2;
    let low = entry.data & (u64::MAX >> (64 - half));
    let (size, value, value_bytes) = match (stream.data, full) {
        (false, _) => (word, 0, 0),
        (true, true) => (word, entry.data, word as u8),
        (true, false) => ((entry.data >> half) as u32, low, (half / 8) as u8),
    };
    let kind = if stream.write || entry.tag & 2 != 0 { AccessKind::Store } else { AccessKind::Load };
    let access = Access { cycle: entry.cycle, ip: entry.ip, addr: entry.addr, size, kind };
    DataAccess { access, value, value_bytes }
}

const ENTRY_BYTES: usize = 32;
const CYCLE: u64 = (1 << 48) - 1;
const FULL: u64 = 1 << 48;
const STORE: u64 = 1 << 49;

fn entries64(input: &mut dyn BufRead, shard: &mut ShardWriter) -> Result<()> {
    let mut entry = [0u8; ENTRY_BYTES];
    let mut index = 0;
    loop {
        let mut filled = 0;
        while filled < ENTRY_BYTES {
            match input.read(&mut entry[filled..]).context("can't be read")? {
                0 => break,
                bytes => filled += bytes,
            }
        }
        if filled == 0 {
            return Ok(());
        }
        if filled < ENTRY_BYTES {
            bail!("entry {index}: ends after {filled} of {ENTRY_BYTES} bytes; is this the 32-byte form?");
        }
        let [meta, ip, addr, data] = std::array::from_fn(|word| {
            u64::from_le_bytes(std::array::from_fn(|byte| entry[word * 8 + byte]))
        });
        let full = meta & FULL != 0;
        let size = if full { 8 } else { (data >> 32) as u32 };
        if meta >> 50 != 0 || size == 0 || (full && size != 8) || (!full && size == 8) {
            bail!("entry {index}: is not of the 32-byte form (tag {:#x}, {size} bytes)", meta >> 49);
        }
        let kind = if meta & STORE != 0 { AccessKind::Store } else { AccessKind::Load };
        let cycle = meta & CYCLE;
        let access = Access { cycle, ip: VirtAddr(ip), addr: VirtAddr(addr), size, kind };
        let (value, value_bytes) = if full { (data, 8) } else { (data & 0xffff_ffff, 4) };
        shard.push_data_accesses(&[DataAccess { access, value, value_bytes }])?;
        index += 1;
    }
}

fn lackey(input: &mut dyn BufRead, shard: &mut ShardWriter) -> Result<()> {
    let mut ip = VirtAddr(0);
    let mut cycle = 0;
    let mut line = String::new();
    for number in 1u64.. {
        line.clear();
        if input.read_line(&mut line).with_context(|| format!("line {number}: can't be read"))? == 0 {
            return Ok(());
        }
        // Valgrind's own messages stand between the lines.
        let text = line.trim_end();
        if text.is_empty() || text.starts_with("==") {
            continue;
        }
        let (mark, rest) =
            text.split_at_checked(3).with_context(|| format!("line {number}: is not in lackey's format"))?;
        let wrong = || format!("line {number}: {text:?} is not in lackey's format");
        let (addr, size) = rest.split_once(',').with_context(wrong)?;
        let addr = VirtAddr(u64::from_str_radix(addr.trim(), 16).with_context(wrong)?);
        let size: u32 = size.parse().with_context(wrong)?;
        let kind = match mark.trim() {
            "I" => {
                ip = addr;
                cycle += 1;
                continue;
            }
            "L" => AccessKind::Load,
            "S" => AccessKind::Store,
            "M" => AccessKind::Modify,
            _ => bail!(wrong()),
        };
        shard.push_accesses(&[Access { cycle, ip, addr, size, kind }])?;
    }
    Ok(())
}
