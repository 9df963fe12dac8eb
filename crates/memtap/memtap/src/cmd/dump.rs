//! `memtap dump`: the events of a trace, one after the other, in seven formats.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::flow::{self, Flow};
use analysis::machine::{self, Machine};
use analysis::{Moment, Session, Tool};
use anyhow::{Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Parser, ValueEnum};
use memref::{
    Access, AccessKind, Allocation, AllocationKind, BlockOp, Event, MarkerKind, ThreadId, VirtAddr,
};
use serde_json::json;
use symbols::Resolver;
use trace_format::{DataAccess, DataCursor, Filter, Form, KindSet, StreamKind, ThreadRecord};

use crate::output::{Letter, Out, ReaderGone, letter, note_problems};

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Addresses, as MadT's raw lines
    Raw,
    /// Names, as MadT's symbolic lines
    Symbolic,
    /// A raw and a symbolic line for each event
    Both,
    /// As Valgrind's lackey --trace-mem=yes prints data accesses
    Lackey,
    /// As DineroIV reads: 0 or 1 and an address
    Din,
    /// One JSON object a line
    Jsonl,
    /// 32 binary bytes an access: cycle and size, instruction, address, data
    Entries64,
}

/// Print the events of a trace
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// How events are written
    #[arg(long, value_enum, default_value = "symbolic")]
    format: Format,
    /// Only this kind of events
    #[arg(long, value_name = "NAME", value_parser = streams())]
    stream: Option<String>,
    /// Only accesses with these numbers among their thread's; with 0x in front, only events that touch these addresses
    #[arg(long, value_name = "A..B", value_parser = parse_part)]
    range: Option<Part>,
    /// Only events at these cycles
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    cycles: Option<Range<u64>>,
    /// Only this thread's events, by its number in the trace
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
}

/// Takes the name of a stream of the trace, also one of earlier versions of the format, and gives the one of this version.
/// `physical` is no stream but made of several.
fn streams() -> impl TypedValueParser<Value = String> {
    const NAMES: [&str; 10] = [
        "accesses",
        "block-operations",
        "allocations",
        "markers",
        "gaps",
        "syncs",
        "flow",
        "tasks",
        "found",
        "physical",
    ];
    let with_former = |name: &'static str| {
        let former = StreamKind::from_name(name).and_then(StreamKind::former_name);
        PossibleValue::new(name).aliases(former)
    };
    PossibleValuesParser::new(NAMES.map(with_former)).map(|name| StreamKind::current_name(&name).to_owned())
}

/// `A..B`, `A..` or `..B`.
pub(crate) fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text:?} is no range; write A..B, with A included and B not");
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    let number =
        |text: &str, none: u64| if text.is_empty() { Ok(none) } else { text.parse().map_err(|_| wrong()) };
    let range = number(start, 0)?..number(end, u64::MAX)?;
    if range.is_empty() {
        Err(format!("{text:?} is empty; the first number must be the smaller one"))
    } else {
        Ok(range)
    }
}

/// What `--range` selects.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Accesses by their numbers.
    Numbers(Range<u64>),
    /// Events by the addresses that they touch.
    Addresses(Range<VirtAddr>),
}

/// Decimal numbers of accesses, or hexadecimal addresses.
fn parse_part(text: &str) -> Result<Part, String> {
    let hex = |end: &str| end.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match text.split_once("..").map(|(start, end)| (hex(start), hex(end))) {
        Some((Some(start), Some(end))) if start < end => Ok(Part::Addresses(VirtAddr(start)..VirtAddr(end))),
        _ => parse_range(text).map(Part::Numbers),
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = Session::open(&args.file)?;
    match args.stream.as_deref() {
        Some("flow") => return flow_stream(&session, args),
        Some(stream @ ("tasks" | "found" | "physical")) => return machine_stream(&session, args, stream),
        _ => {}
    }
    let mut filter = Filter { cycles: args.cycles.clone(), ..Default::default() };
    let mut stream = args.stream.as_deref();
    match &args.range {
        Some(Part::Numbers(numbers)) => {
            filter.index = Some(numbers.clone());
            stream = stream.or(Some("accesses"));
        }
        Some(Part::Addresses(addresses)) => filter.addresses = vec![addresses.clone()],
        None => {}
    }
    filter.kinds = match stream {
        Some("accesses") => KindSet::ACCESSES,
        Some("block-operations") => KindSet::BLOCKS,
        Some("allocations") => KindSet::ALLOCATIONS,
        Some("markers") => KindSet::MARKERS,
        Some("gaps") => KindSet::GAPS,
        Some("syncs") => KindSet::SYNCS,
        _ => KindSet::ALL,
    };
    let mut dump = Dump {
        values: Values::of(&session, &filter, args.format),
        out: Out::stdout(),
        format: args.format,
        kinds: filter.kinds,
        number: 0,
        failed: None,
        line: String::new(),
    };
    if args.format == Format::Entries64 {
        entries64(&session, &filter, args.thread.map(ThreadId), &mut dump.out)?;
        dump.out.finish()?;
        return Ok(ExitCode::SUCCESS);
    }
    let replayed = session.replay(&filter, args.thread.map(ThreadId), &mut dump);
    if let Some(error) = dump.failed {
        return Err(error);
    }
    replayed?;
    dump.out.finish()?;
    note_problems(&session);
    Ok(ExitCode::SUCCESS)
}

/// The blocks that threads entered: a line each, of a program with the function.
fn flow_stream(session: &Session, args: &Args) -> Result<ExitCode> {
    let trace = session.trace();
    let blocks = flow::blocks(trace)?;
    if blocks.is_empty() {
        bail!("{}: its control flow was not recorded (record --flow full)", args.file.display());
    }
    let cycles = args.cycles.clone().unwrap_or(0..u64::MAX);
    let (threads, out, format) = (BTreeMap::new(), Out::stdout(), args.format);
    let mut lines = FlowLines { threads, cycles, format, out, failed: None };
    for record in trace.threads() {
        if args.thread.is_none_or(|thread| thread == record.thread.0) {
            let mut flow = Flow::of(trace, record.thread, &blocks);
            flow.seek(lines.cycles.start);
            lines.threads.insert(record.thread, flow);
        }
    }
    // Names as they were meanwhile; a machine's are not those of its own process.
    let mut names = Vec::new();
    if Machine::of(session).is_none() {
        let filter = Filter { kinds: KindSet::ACCESSES, cycles: args.cycles.clone(), ..Default::default() };
        let replayed = session.replay(&filter, args.thread.map(ThreadId), &mut lines);
        if let Some(error) = lines.failed {
            return Err(error);
        }
        names = replayed?;
    }
    for record in trace.threads() {
        let mut names = names.iter_mut().find(|names| names.process() == record.process);
        while lines.next(record.thread, u64::MAX, names.as_deref_mut(), record.tid)? {}
    }
    lines.out.finish()?;
    note_problems(session);
    Ok(ExitCode::SUCCESS)
}

/// The lines of a dump of control flow.
struct FlowLines {
    threads: BTreeMap<ThreadId, Flow>,
    cycles: Range<u64>,
    format: Format,
    out: Out,
    failed: Option<anyhow::Error>,
}

impl FlowLines {
    /// Writes the thread's next entry, if it was made at that cycle or before. Without names it is a processor's, of that number.
    fn next(
        &mut self,
        thread: ThreadId,
        last: u64,
        names: Option<&mut Resolver>,
        processor: u32,
    ) -> Result<bool> {
        let Some(flow) = self.threads.get_mut(&thread) else { return Ok(false) };
        let last = last.min(self.cycles.end - 1);
        let Some(entered) = flow.peek()?.filter(|entered| entered.cycle <= last) else { return Ok(false) };
        flow.advance()?;
        if entered.cycle >= self.cycles.start {
            let (cycle, ip, count) = (entered.cycle, entered.block.ip, entered.block.instructions);
            let code = names.map(|names| code_name(names, VirtAddr(ip)));
            self.out.line(&match (self.format, code) {
                (Format::Jsonl, code) => json!({
                    "type": "block_entered",
                    "thread": thread.0,
                    "cycle": cycle,
                    "ip": format!("{ip:#x}"),
                    "instructions": count,
                    "bytes": entered.block.bytes,
                    "code": code,
                })
                .to_string(),
                (_, None) => format!("{cycle} cpu {processor} {ip:#x} {count} instructions"),
                (_, Some(code)) => format!("{cycle} thread {} {ip:#x} {count} instructions {code}", thread.0),
            })?;
        }
        Ok(true)
    }
}

impl Tool for FlowLines {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), analysis::Error> {
        let Some(last) = accesses.last() else { return Ok(()) };
        loop {
            match self.next(at.thread, last.cycle, Some(at.resolver), 0) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    let ended = output_error(&error);
                    self.failed = Some(error);
                    return Err(ended);
                }
            }
        }
    }
}

/// What ends a replay whose output can't be written.
fn output_error(error: &anyhow::Error) -> analysis::Error {
    let kind = match error.is::<ReaderGone>() {
        true => std::io::ErrorKind::BrokenPipe,
        false => std::io::ErrorKind::Other,
    };
    analysis::Error::Output(kind.into())
}

/// What tasks of a machine did, or what was found in its memory: a line each.
fn machine_stream(session: &Session, args: &Args, stream: &str) -> Result<ExitCode> {
    if Machine::of(session).is_none() {
        bail!(
            "{}: --stream {stream} is for the trace of a machine (record --tracer qemu)",
            args.file.display()
        );
    }
    let mut out = Out::stdout();
    let wanted = |cycle: u64| args.cycles.as_ref().is_none_or(|cycles| cycles.contains(&cycle));
    if stream == "found" {
        for entry in machine::found(session.trace())?.iter().filter(|entry| wanted(entry.cycle)) {
            out.line(&format!("{} since {} {:#x} {}", entry.cycle, entry.since, entry.addr, entry.len))?;
        }
    }
    for record in session.trace().threads().iter().filter(|_| stream != "found") {
        if args.thread.is_some_and(|thread| thread != record.thread.0) {
            continue;
        }
        if stream == "physical" {
            physical(session, record, args, &mut out)?;
            continue;
        }
        for task in machine::tasks(session.trace(), record.thread)?.iter().filter(|task| wanted(task.cycle)) {
            let change = ["switch", "create", "exec", "exit"].get(usize::from(task.change)).unwrap_or(&"?");
            out.line(&format!(
                "{} cpu {} {change} {} thread {} parent {} {}",
                task.cycle,
                record.tid,
                task.process,
                task.thread,
                task.parent,
                task.name()
            ))?;
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// A machine's accesses with all that is known of each: cycle, vCPU, mode, kind, size, virtual and physical address,
/// instruction, function of the kernel, data.
fn physical(session: &Session, record: &ThreadRecord, args: &Args, out: &mut Out) -> Result<()> {
    use std::fmt::Write;
    let (mut numbers, mut addresses) = (0..u64::MAX, None);
    match &args.range {
        Some(Part::Numbers(part)) => numbers = part.clone(),
        Some(Part::Addresses(part)) => addresses = Some(part.clone()),
        None => {}
    }
    let cycles = args.cycles.clone().unwrap_or(0..u64::MAX);
    let symbols = machine::GuestSymbols::of(session.trace())?;
    // Asked for only where it matters: it takes reading the trace from its start.
    let mut kernel_since = None;
    let mut written = Ok(());
    machine::walk_data(session.trace(), record.thread, numbers, |access, places, data| {
        let end = VirtAddr(access.addr.0.saturating_add(access.size.into()));
        let outside = addresses.as_ref().is_some_and(|part| access.addr >= part.end || end <= part.start);
        if access.cycle < cycles.start || outside {
            return true;
        }
        if access.cycle >= cycles.end {
            return false;
        }
        let mode = if access.ip.0 >> 63 != 0 {
            machine::Mode::Kernel
        } else {
            let since =
                kernel_since.get_or_insert_with(|| machine::kernel_since(session.trace(), record.thread));
            match since {
                Ok(since) if access.cycle >= *since => machine::Mode::User,
                _ => machine::Mode::Boot,
            }
        };
        let mut line = format!(
            "{} cpu {} {} {} {} {:#x} physical ",
            access.cycle,
            record.tid,
            mode.name(),
            access.kind.name(),
            access.size,
            access.addr
        );
        let _ = match places.address(access) {
            Some(address) => write!(line, "{address:#x}"),
            None => write!(line, "-"),
        };
        let name = symbols.name(access.ip.0).unwrap_or("-");
        let _ = write!(line, " ip {:#x} {name}", access.ip);
        if let Some(data) = data {
            line.push_str(" data ");
            for byte in data.iter().rev() {
                let _ = write!(line, "{byte:02x}");
            }
        }
        written = out.line(&line);
        written.is_ok()
    })?;
    if let Some(Err(error)) = kernel_since {
        return Err(error.into());
    }
    written
}

/// The bytes of each thread's accesses, in step with the replay.
#[derive(Default)]
struct Values {
    threads: HashMap<ThreadId, (DataCursor, VecDeque<DataAccess>)>,
}

impl Values {
    /// Those of a trace that has them, where they are shown.
    fn of(session: &Session, filter: &Filter, format: Format) -> Self {
        let mut values = Self::default();
        if format == Format::Jsonl && session.trace().has_data() {
            // As the replay reads the same accesses.
            let filter = Filter { kinds: KindSet::ACCESSES, ..filter.clone() };
            for record in session.trace().threads() {
                let cursor = session.trace().shard(record.thread).data_accesses(&filter);
                values.threads.insert(record.thread, (cursor, VecDeque::new()));
            }
        }
        values
    }

    /// The bytes of the thread's next access in hexadecimal, as a number: the first byte last.
    fn next(&mut self, thread: ThreadId) -> Result<Option<String>, analysis::Error> {
        let Some((cursor, waiting)) = self.threads.get_mut(&thread) else { return Ok(None) };
        if waiting.is_empty()
            && let Some(block) = cursor.next_block()?
        {
            waiting.extend(block);
        }
        let Some(entry) = waiting.pop_front() else { return Ok(None) };
        let bytes = cursor.bytes(&entry)?;
        Ok(bytes
            .map(|bytes| bytes.iter().rev().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))))
    }
}

struct Dump {
    out: Out,
    format: Format,
    kinds: KindSet,
    /// The number of the next event.
    number: u64,
    values: Values,
    failed: Option<anyhow::Error>,
    line: String,
}

impl Dump {
    /// Writes the line that was made; an error ends the replay.
    fn put(&mut self) -> Result<(), analysis::Error> {
        self.line.push('\n');
        let line = std::mem::take(&mut self.line);
        let result = self.out.bytes(line.as_bytes());
        self.line = line;
        self.line.clear();
        result.map_err(|error| {
            let ended = output_error(&error);
            self.failed = Some(error);
            ended
        })
    }

    fn access(
        &mut self,
        resolver: &mut Resolver,
        thread: ThreadId,
        access: &Access,
    ) -> Result<(), analysis::Error> {
        match self.format {
            Format::Lackey | Format::Din => {
                let form = if self.format == Format::Lackey { Form::Lackey } else { Form::Din };
                let mut bytes = std::mem::take(&mut self.line).into_bytes();
                form.put(access, &[], &mut bytes);
                self.line = String::from_utf8(bytes).unwrap_or_default();
                match self.line.pop() {
                    Some(_) => self.put(),
                    None => Ok(()),
                }
            }
            Format::Jsonl => self.access_json(resolver, thread, access),
            _ => {
                // A modify is what the paper logs as two: a load, then a store.
                let number = self.number;
                self.number += 1;
                if access.kind.reads() {
                    self.access_lines(resolver, access, Letter::Load, number)?;
                }
                if access.kind.writes() {
                    self.access_lines(resolver, access, Letter::Store, number)?;
                }
                Ok(())
            }
        }
    }

    fn access_lines(
        &mut self,
        resolver: &mut Resolver,
        access: &Access,
        kind: Letter,
        number: u64,
    ) -> Result<(), analysis::Error> {
        use std::fmt::Write;
        let Some(letter) = letter(kind) else { return Ok(()) };
        let region = region_name(resolver, access.addr);
        if matches!(self.format, Format::Raw | Format::Both) {
            let _ = write!(self.line, "{letter}#{number}:{},{region},{}", access.addr, access.ip);
            self.put()?;
        }
        if matches!(self.format, Format::Symbolic | Format::Both) {
            let name = data_name(resolver, access.addr);
            let code = code_name(resolver, access.ip);
            let _ = write!(self.line, "{letter}${number}:{name},{region},{code}");
            self.put()?;
        }
        Ok(())
    }

    fn access_json(
        &mut self,
        resolver: &mut Resolver,
        thread: ThreadId,
        access: &Access,
    ) -> Result<(), analysis::Error> {
        let name = resolver.resolve_data(access.addr);
        let variable = resolver.names().variable(name.variable);
        let path = resolver.field_path(access.addr, access.size);
        let code = resolver.code_name(access.ip);
        let line = code.as_ref().and_then(|code| code.line().map(|(file, line)| (file.to_owned(), line)));
        let data = self.values.next(thread)?;
        let mut object = json!({
            "type": access.kind.name(),
            "thread": thread.0,
            "process": resolver.process().0,
            "cycle": access.cycle,
            "ip": format!("{:#x}", access.ip),
            "addr": format!("{:#x}", access.addr),
            "size": access.size,
            "variable": variable.as_ref().map(|variable| &*variable.name),
            "offset": name.offset,
            "field": path.as_deref(),
            "region": region_name(resolver, access.addr),
            "code": code.as_ref().map(|code| code.to_string()),
            "file": line.as_ref().map(|(file, _)| file),
            "line": line.as_ref().and_then(|(_, line)| *line),
        });
        if let (Some(data), Some(object)) = (data, object.as_object_mut()) {
            object.insert("data".into(), data.into());
        }
        self.json(&object)
    }

    fn json(&mut self, object: &serde_json::Value) -> Result<(), analysis::Error> {
        self.line = object.to_string();
        self.put()
    }

    fn block(
        &mut self,
        resolver: &mut Resolver,
        thread: ThreadId,
        block: &BlockOp,
    ) -> Result<(), analysis::Error> {
        use std::fmt::Write;
        let shown = |addr: VirtAddr| addr.0 != 0;
        match self.format {
            Format::Lackey | Format::Din | Format::Entries64 => Ok(()),
            Format::Jsonl => {
                let mut variable = |addr: VirtAddr| {
                    if !shown(addr) {
                        return serde_json::Value::Null;
                    }
                    let name = resolver.resolve_data(addr);
                    resolver.names().variable(name.variable).map(|v| v.name.to_string()).into()
                };
                let (dst, src) = (variable(block.dst), variable(block.src));
                let object = json!({
                    "type": block.kind.name(),
                    "thread": thread.0,
                    "process": resolver.process().0,
                    "cycle": block.cycle,
                    "ip": format!("{:#x}", block.ip),
                    "function": block.function.name(),
                    "dst": shown(block.dst).then(|| format!("{:#x}", block.dst)),
                    "src": shown(block.src).then(|| format!("{:#x}", block.src)),
                    "dst_variable": dst,
                    "src_variable": src,
                    "size": block.len,
                    "code": code_name(resolver, block.ip),
                });
                self.json(&object)
            }
            _ => {
                let number = self.number;
                self.number += 1;
                let Some(letter) = letter(Letter::Block(block.kind)) else { return Ok(()) };
                let places = [block.dst, block.src].map(|addr| shown(addr).then_some(addr));
                let function = block.function;
                if matches!(self.format, Format::Raw | Format::Both) {
                    let _ = write!(self.line, "{letter}#{number}:");
                    for addr in places.into_iter().flatten() {
                        let _ = write!(self.line, "{addr},{},", region_name(resolver, addr));
                    }
                    let _ = write!(self.line, "{},{function},{}", block.len, block.ip);
                    self.put()?;
                }
                if matches!(self.format, Format::Symbolic | Format::Both) {
                    let _ = write!(self.line, "{letter}${number}:");
                    for addr in places.into_iter().flatten() {
                        let (name, region) = (data_name(resolver, addr), region_name(resolver, addr));
                        let _ = write!(self.line, "{name},{region},");
                    }
                    let code = code_name(resolver, block.ip);
                    let _ = write!(self.line, "{},{function},{code}", block.len);
                    self.put()?;
                }
                Ok(())
            }
        }
    }

    fn allocation(
        &mut self,
        resolver: &mut Resolver,
        thread: ThreadId,
        event: &Allocation,
    ) -> Result<(), analysis::Error> {
        use std::fmt::Write;
        let variable = resolver.resolve_data(event.addr).variable;
        let name = resolver
            .names()
            .variable(variable)
            .map_or_else(String::new, |variable| variable.name.to_string());
        match self.format {
            Format::Lackey | Format::Din | Format::Entries64 => Ok(()),
            Format::Jsonl => {
                let object = json!({
                    "type": event.kind.name(),
                    "thread": thread.0,
                    "process": resolver.process().0,
                    "cycle": event.cycle,
                    "order": event.order,
                    "ip": format!("{:#x}", event.ip),
                    "function": event.function.name(),
                    "addr": format!("{:#x}", event.addr),
                    "size": event.len,
                    "old_addr": (event.old_addr.0 != 0).then(|| format!("{:#x}", event.old_addr)),
                    "variable": name,
                    "code": code_name(resolver, event.ip),
                });
                self.json(&object)
            }
            _ => {
                let Some(letter) = letter(Letter::Allocation(event.kind)) else { return Ok(()) };
                let number = self.number;
                self.number += 1;
                let bytes = match event.kind {
                    AllocationKind::Free => String::new(),
                    _ => format!(",{}", event.len),
                };
                if matches!(self.format, Format::Raw | Format::Both) {
                    let _ = write!(self.line, "{letter}#{number}:{}{bytes}", event.addr);
                    self.put()?;
                }
                if matches!(self.format, Format::Symbolic | Format::Both) {
                    let _ = write!(self.line, "{letter}${number}:{name}{bytes}");
                    self.put()?;
                }
                Ok(())
            }
        }
    }
}

impl Tool for Dump {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), analysis::Error> {
        accesses.iter().try_for_each(|access| self.access(at.resolver, at.thread, access))
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), analysis::Error> {
        use std::fmt::Write;
        match event {
            Event::Access(access) => self.access(at.resolver, at.thread, access),
            Event::Block(block) => self.block(at.resolver, at.thread, block),
            Event::Allocation(event) if self.kinds.intersects(KindSet::ALLOCATIONS) => {
                self.allocation(at.resolver, at.thread, event)
            }
            Event::Marker(marker) => match self.format {
                Format::Jsonl => {
                    let kind = match marker.kind {
                        MarkerKind::Start => "start",
                        MarkerKind::Stop => "stop",
                        MarkerKind::Mark => "mark",
                    };
                    let object = json!({
                        "type": kind, "thread": at.thread.0, "process": at.process.0, "cycle": marker.cycle,
                        "order": marker.order, "ip": format!("{:#x}", marker.ip), "name": marker.name,
                        "code": code_name(at.resolver, marker.ip),
                    });
                    self.json(&object)
                }
                Format::Raw | Format::Symbolic | Format::Both if marker.kind == MarkerKind::Mark => {
                    let _ = write!(self.line, "/* {} */", marker.name.replace("*/", "* /"));
                    self.put()
                }
                _ => Ok(()),
            },
            Event::Gap(gap) => match self.format {
                Format::Jsonl => {
                    let object = json!({
                        "type": "gap", "thread": at.thread.0, "process": at.process.0, "cycle": gap.cycle,
                        "count": gap.count, "reason": gap.reason.name(), "addr": format!("{:#x}", gap.addr),
                    });
                    self.json(&object)
                }
                Format::Raw | Format::Symbolic | Format::Both => {
                    let _ = write!(self.line, "/* {} events are missing: {} */", gap.count, gap.reason);
                    self.put()
                }
                _ => Ok(()),
            },
            Event::Sync(sync) if self.format == Format::Jsonl => {
                let object = json!({
                    "type": "sync", "thread": at.thread.0, "process": at.process.0, "cycle": sync.cycle,
                    "order": sync.order, "ip": format!("{:#x}", sync.ip), "code": code_name(at.resolver, sync.ip),
                    "kind": sync.kind.name(), "function": sync.function.name(),
                    "object": format!("{:#x}", sync.object), "value": sync.value,
                });
                self.json(&object)
            }
            Event::Allocation(_) | Event::Order(_) | Event::Sync(_) => Ok(()),
        }
    }
}

/// `symbol+offset`, the offset always there, as the paper has it.
fn data_name(resolver: &mut Resolver, addr: VirtAddr) -> String {
    let name = resolver.resolve_data(addr);
    match resolver.names().variable(name.variable) {
        Some(variable) => format!("{}+{}", variable.name, name.offset),
        None => addr.to_string(),
    }
}

fn code_name(resolver: &mut Resolver, ip: VirtAddr) -> String {
    resolver.code_name(ip).map_or_else(|| ip.to_string(), |code| code.to_string())
}

/// The region in brackets: its kind.
fn region_name(resolver: &mut Resolver, addr: VirtAddr) -> String {
    let id = resolver.resolve_region(addr);
    let region = id.and_then(|id| resolver.image().regions().region(id));
    region.map_or_else(|| "[unknown]".to_owned(), |region| format!("[{}]", region.kind))
}

/// The 32-byte form: cycle (48 bits), whether the data is a whole word, a tag whose lowest bit is a store's; instruction;
/// address; data. A modify is two entries, unless its bytes were imported as one.
fn entries64(session: &Session, filter: &Filter, only: Option<ThreadId>, out: &mut Out) -> Result<()> {
    let mut bytes = Vec::new();
    for record in session.trace().threads() {
        if only.is_some_and(|only| only != record.thread) {
            continue;
        }
        let shard = session.trace().shard(record.thread);
        let mut accesses = shard.accesses(filter);
        let mut values = shard.values(&Filter { index: filter.index.clone(), ..Default::default() });
        let mut next = values.next().transpose()?;
        while let Some(block) = accesses.next_block()? {
            let block = block.to_vec();
            let first = accesses.first_index();
            for (place, access) in block.iter().enumerate() {
                let index = first + place as u64;
                while next.as_ref().is_some_and(|value| value.access_index < index) {
                    next = values.next().transpose()?;
                }
                let value = next.as_ref().filter(|value| value.access_index == index);
                if access.kind == AccessKind::Prefetch {
                    bail!("prefetches can't be written as entries64");
                }
                Form::Entries64.put(access, value.map_or(&[], |value| &value.bytes), &mut bytes);
            }
            out.bytes(&bytes)?;
            bytes.clear();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_two_ends() {
        assert_eq!(parse_range("3..7"), Ok(3..7));
        assert_eq!(parse_range("..7"), Ok(0..7));
        assert_eq!(parse_range("3.."), Ok(3..u64::MAX));
        assert!(parse_range("7..3").unwrap_err().contains("is empty"));
        assert_eq!(parse_part("0x10..0x20"), Ok(Part::Addresses(VirtAddr(16)..VirtAddr(32))));
        assert_eq!(parse_part("10..20"), Ok(Part::Numbers(10..20)));
        assert!(parse_range("seven").unwrap_err().contains("is no range"));
    }
}
