//! `memtap watch`: any number of byte-accurate watchpoints on a program that is not changed for it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::{Moment, Session, Tool};
use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use memref::{Access, AccessKind, Event, RegionKind, VirtAddr};
use segment::{Config, MAX_BREAKPOINTS, MAX_LIST_PATH_BYTES};
use serde_json::json;
use symbols::{Module, SearchPath};
use trace_format::Encoders;

use crate::record::{self, Job, Linkage};

/// Watch variables, heap blocks and addresses of a program, and log each hit with the values before and after
///
/// An EXPR is a variable (`counter`, `frame.pixels[3].red`), a part of one (`table+16:8`), an address (`0x404040:8`), or the
/// blocks that a function allocates (`malloc@make#2`: the second one; without #: all of them, also those to come).
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Watch writes to this (may be given several times)
    #[arg(long, value_name = "EXPR")]
    write: Vec<String>,
    /// Watch reads of this (may be given several times)
    #[arg(long, value_name = "EXPR")]
    read: Vec<String>,
    /// Watch reads and writes of this (may be given several times)
    #[arg(long, value_name = "EXPR")]
    access: Vec<String>,
    /// Watch what the lines of this file say: `write EXPR`, `read EXPR` or `access EXPR` each
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Log only hits of this thread
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
    /// Log only hits after which the bytes hold this value
    #[arg(long, value_name = "VALUE", value_parser = number)]
    value: Option<u64>,
    /// Log one JSON object a line
    #[arg(long)]
    json: bool,
    /// Log to this file instead of standard error
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROG")]
    program: Vec<String>,
}

/// A number in decimal, or in hexadecimal with 0x in front.
fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is no number"))
}

/// One entry of the list that the traced program gets: see `tracer-protect`, watchpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    kind: u64,
    address: u64,
    len: u64,
    number: u64,
}

const KIND_ADDRESS: u64 = 0;
const KIND_MODULE: u64 = 1;
const KIND_SITE: u64 = 2;
const ALLOCATORS: [&str; 5] = ["malloc", "calloc", "realloc", "new", "alloc"];

/// What an expression names.
fn resolve(module: &Module, expression: &str) -> Result<Vec<Entry>> {
    if let Some(rest) = expression.strip_prefix("0x") {
        let (address, len) = rest
            .split_once(':')
            .ok_or_else(|| anyhow!("{expression}: an address needs a length: 0xADDR:LEN"))?;
        let address =
            u64::from_str_radix(address, 16).map_err(|_| anyhow!("{expression}: not an address"))?;
        let len = number(len).map_err(|error| anyhow!("{expression}: {error}"))?;
        if len == 0 || address >> 47 != 0 || address + len > 1 << 47 {
            bail!("{expression}: not a range of a program's addresses");
        }
        return Ok(vec![Entry { kind: KIND_ADDRESS, address, len, number: 0 }]);
    }
    let first = if module.is_fixed() { module.extent().0 } else { 0 };
    if let Some((allocator, site)) = expression.split_once('@') {
        if !ALLOCATORS.contains(&allocator) {
            bail!("{expression}: {allocator} is no allocator; one of {} is", ALLOCATORS.join(", "));
        }
        let (function, nth) = match site.split_once('#') {
            Some((function, nth)) => {
                let nth = number(nth).ok().filter(|&nth| nth > 0);
                (function, nth.ok_or_else(|| anyhow!("{expression}: blocks are counted from 1"))?)
            }
            None => (site, 0),
        };
        let found = module.find_function(function).with_context(|| expression.to_owned())?;
        return Ok(found
            .iter()
            .map(|symbol| {
                let address = symbol.address - first;
                Entry { kind: KIND_SITE, address, len: symbol.bytes.max(1), number: nth }
            })
            .collect());
    }
    let places = module.find_variable(expression).with_context(|| expression.to_owned())?;
    Ok(places
        .iter()
        .map(|place| Entry { kind: KIND_MODULE, address: place.addr.0 - first, len: place.len, number: 0 })
        .collect())
}

/// A file that goes with this value.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (name, rest) = args.program.split_first().expect("clap requires a program");
    let program = record::find(name)?;
    let linkage = record::check(&program)?;
    if linkage == Linkage::Static {
        bail!("{}: is statically linked, so nothing can be preloaded that watches", program.display());
    }
    let module = Module::open(&program, None, &SearchPath::default())
        .with_context(|| program.display().to_string())?;
    let listed = args.list.as_deref().map(read_list).transpose()?.unwrap_or_default();
    let mut wanted: Vec<(&String, u64)> = [(&args.read, 1), (&args.write, 2), (&args.access, 3)]
        .into_iter()
        .flat_map(|(list, bits)| list.iter().map(move |expression| (expression, bits)))
        .collect();
    wanted.extend(listed.iter().map(|(expression, bits)| (expression, *bits)));
    if wanted.is_empty() {
        bail!("nothing to watch: give --write, --read or --access with an expression");
    }
    let stamp = record::unique_name();
    let list = Temporary(PathBuf::from(format!("/tmp/{stamp}.list")));
    write_list(&list.0, &module, &wanted)?;
    let trace = Temporary(std::env::temp_dir().join(format!("{stamp}.memtap")));
    let mut watchpoints = [0; MAX_LIST_PATH_BYTES];
    let path = list.0.as_os_str().as_encoded_bytes();
    let place = watchpoints.get_mut(..path.len()).filter(|_| path.len() < MAX_LIST_PATH_BYTES);
    place.context("the path of the list of watchpoints is too long")?.copy_from_slice(path);
    let regions = [RegionKind::Data, RegionKind::Bss, RegionKind::Heap, RegionKind::Anonymous];
    let job = Job {
        output: trace.0.clone(),
        force: true,
        encoder: Encoders::LIVE,
        sync: Default::default(),
        linkage,
        server: None,
        name: name.clone(),
        program,
        args: rest.to_vec(),
        config: Config {
            regions: regions.iter().fold(0, |mask, kind| mask | 1 << kind.code()),
            children: false,
            bursts: true,
            two_signals: false,
            at_main: true,
            translate: false,
            watchpoints,
            breakpoints: [None; MAX_BREAKPOINTS],
        },
    };
    let outcome = record::record(&job)?;
    let session = Session::open(&trace.0)?;
    let out: Box<dyn Write> = match &args.output {
        Some(path) => {
            Box::new(File::create(path).with_context(|| format!("{}: can't be written", path.display()))?)
        }
        None => Box::new(std::io::stderr()),
    };
    let mut log = Log {
        out: BufWriter::new(out),
        expressions: wanted.iter().map(|(expression, _)| expression.as_str()).collect(),
        args,
        failed: None,
    };
    session.replay(&Default::default(), None, &mut log)?;
    let flushed = log.out.flush();
    if let Some(error) = log.failed.or(flushed.err()) {
        return Err(error).context("the log can't be written");
    }
    Ok(ExitCode::from(outcome.status))
}

/// The lines of a file that says what to watch.
fn read_list(path: &Path) -> Result<Vec<(String, u64)>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown}: can't be read"))?;
    let mut list = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (kind, expression) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let bits = match kind {
            "read" => 1,
            "write" => 2,
            "access" => 3,
            _ => bail!("{shown}:{}: a line is read, write or access, and an expression", index + 1),
        };
        list.push((expression.trim().to_owned(), bits));
    }
    Ok(list)
}

fn write_list(path: &Path, module: &Module, wanted: &[(&String, u64)]) -> Result<()> {
    let file = File::options().write(true).create_new(true).open(path);
    let mut out = BufWriter::new(file.with_context(|| format!("{}: can't be written", path.display()))?);
    let mut entries = Vec::with_capacity(wanted.len());
    for (id, (expression, bits)) in wanted.iter().enumerate() {
        entries.extend(resolve(module, expression)?.into_iter().map(|entry| (entry, *bits, id as u64)));
    }
    // In the order in which the tracer keeps them.
    entries.sort_by_key(|(entry, ..)| (entry.kind, entry.address));
    for (entry, bits, id) in entries {
        for word in [entry.kind | bits << 8, entry.address, entry.len, entry.number, id] {
            out.write_all(&word.to_le_bytes())?;
        }
    }
    out.flush()?;
    Ok(())
}

/// A hit, as the tracer puts it into the name of a marker.
#[derive(Debug, PartialEq, Eq)]
struct Hit {
    id: usize,
    kind: AccessKind,
    addr: VirtAddr,
    old: Option<u64>,
    new: u64,
}

impl Hit {
    fn parse(name: &str) -> Option<Self> {
        let mut words = name.strip_prefix("memtap-watch ")?.split(' ');
        let mut word = || words.next();
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let id = word()?.parse().ok()?;
        let kind = AccessKind::from_code(word()?.parse().ok()?)?;
        let addr = VirtAddr(hex(word()?)?);
        let _bytes = word()?;
        let old = word()?;
        Some(Self { id, kind, addr, old: hex(old), new: hex(word()?)? })
    }
}

struct Log<'a> {
    out: BufWriter<Box<dyn Write>>,
    expressions: Vec<&'a str>,
    args: &'a Args,
    failed: Option<std::io::Error>,
}

impl Log<'_> {
    fn hit(&mut self, at: &mut Moment<'_>, cycle: u64, ip: VirtAddr, hit: &Hit) {
        if self.args.thread.is_some_and(|thread| thread != at.thread.0)
            || self.args.value.is_some_and(|value| value != hit.new)
        {
            return;
        }
        let code = at.resolver.code_name(ip);
        let function = code.as_ref().and_then(|code| code.function.clone());
        let line = code.as_ref().and_then(|code| code.line().map(|(file, line)| (file.to_owned(), line)));
        let (file, line) = line.map_or((None, None), |(file, line)| (Some(file), line));
        let watch = self.expressions.get(hit.id).copied().unwrap_or_default();
        let hex = |value: u64| format!("{value:#x}");
        let text = if self.args.json {
            json!({
                "watch": watch, "kind": hit.kind.name(), "function": function.as_deref(),
                "offset": code.as_ref().map(|code| code.offset), "file": file, "line": line, "thread": at.thread.0,
                "old": hit.old.map(hex), "new": hex(hit.new), "cycle": cycle,
            })
            .to_string()
        } else {
            let variable = at.resolver.data_text(hit.addr, 0);
            let code = code.map_or_else(|| ip.to_string(), |code| code.to_string());
            let place = match (file, line) {
                (Some(file), Some(line)) => format!(" ({file}:{line})"),
                _ => String::new(),
            };
            let old = hit.old.map_or("?".to_owned(), hex);
            let (kind, thread, new) = (hit.kind, at.thread.0, hex(hit.new));
            format!("{watch}: {kind} of {variable} by thread {thread} in {code}{place}: {old} -> {new}")
        };
        if self.failed.is_none()
            && let Err(error) = writeln!(self.out, "{text}")
        {
            self.failed = Some(error);
        }
    }
}

impl Tool for Log<'_> {
    fn accesses(&mut self, _: &mut Moment<'_>, _: &[Access]) -> Result<(), analysis::Error> {
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), analysis::Error> {
        if let Event::Marker(marker) = event
            && let Some(hit) = Hit::parse(&marker.name)
        {
            self.hit(at, marker.cycle, marker.ip, &hit);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_read_as_the_tracer_writes_them() {
        let hit = Hit { id: 3, kind: AccessKind::Store, addr: VirtAddr(0x404040), old: Some(1), new: 0xff };
        assert_eq!(Hit::parse("memtap-watch 3 1 404040 4 1 ff"), Some(hit));
        assert_eq!(Hit::parse("memtap-watch 3 1 404040 4 - ff").and_then(|hit| hit.old), None);
        assert_eq!(Hit::parse("phase 2"), None);
        assert_eq!((number("0x10"), number("16")), (Ok(16), Ok(16)));
        assert!(number("ten").is_err());
    }
}
