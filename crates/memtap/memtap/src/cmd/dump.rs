//! `memtap dump`: prints the events of a trace in order, or one of its other streams. The formats are in `report`.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use memref::{ThreadId, VirtAddr};
use report::export::{Entries64, Exporter, FormLines, JsonLines, Madt, Selection, export};
use report::streams::{ExtraStream, StreamForm};
use trace_format::{Form, KindSet};

use crate::inputs;
use crate::output::{Out, note_problems};

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    /// Addresses, as MadT's raw lines
    Raw,
    /// Names, as MadT's symbolic lines
    Symbolic,
    /// A raw and a symbolic line for each event
    Both,
    /// As Valgrind's lackey --trace-mem=yes prints data accesses
    Lackey,
    /// In DineroIV's format: 0 or 1 and an address
    Din,
    /// One JSON object per line
    Jsonl,
    /// 32 bytes per access, binary: cycle and size, instruction, address, data
    Entries64,
}

impl DumpFormat {
    fn exporter(self) -> Box<dyn Exporter> {
        match self {
            Self::Raw => Box::new(Madt::raw()),
            Self::Symbolic => Box::new(Madt::symbolic()),
            Self::Both => Box::new(Madt::both()),
            Self::Lackey => Box::new(FormLines::new(Form::Lackey)),
            Self::Din => Box::new(FormLines::new(Form::Din)),
            Self::Jsonl => Box::new(JsonLines),
            Self::Entries64 => Box::new(Entries64::default()),
        }
    }
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpStream {
    /// Single accesses
    Accesses,
    /// Block operations
    #[value(alias = "blocks")]
    BlockOperations,
    /// Allocations and releases
    Allocations,
    /// Marked points
    Markers,
    /// What is missing
    Gaps,
    /// Synchronisation
    Syncs,
    /// Basic blocks that were entered (text or jsonl)
    #[value(alias = "guest-flow")]
    Flow,
    /// Machines: task events (text or jsonl)
    Tasks,
    /// Machines: writes that no instruction made (text or jsonl)
    Found,
    /// Machines: accesses with physical addresses (text or jsonl)
    Physical,
}

impl DumpStream {
    /// The kinds of events, or a stream that has none.
    fn kinds(self) -> Result<KindSet, ExtraStream> {
        Ok(match self {
            Self::Accesses => KindSet::ACCESSES,
            Self::BlockOperations => KindSet::BLOCKS,
            Self::Allocations => KindSet::ALLOCATIONS,
            Self::Markers => KindSet::MARKERS,
            Self::Gaps => KindSet::GAPS,
            Self::Syncs => KindSet::SYNCS,
            Self::Flow => return Err(ExtraStream::Flow),
            Self::Tasks => return Err(ExtraStream::Tasks),
            Self::Found => return Err(ExtraStream::Found),
            Self::Physical => return Err(ExtraStream::Physical),
        })
    }
}

/// Print the events of a trace
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// How events are written [default: symbolic]
    #[arg(long, value_enum)]
    format: Option<DumpFormat>,
    /// Only this kind of events
    #[arg(long, value_name = "NAME", value_enum)]
    stream: Option<DumpStream>,
    /// Only accesses with these entry numbers, counted from 0 in each thread; 0xA..0xB: only events that touch these addresses
    #[arg(long, value_name = "A..B", value_parser = parse_part)]
    range: Option<TracePart>,
    /// Only events at these cycles
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    cycles: Option<Range<u64>>,
    /// Only this thread's events, by its number in the trace
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
}

/// `A..B`, `A..` or `..B`.
pub(crate) fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text:?} is not a range; write A..B, which includes A but not B");
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
pub(crate) enum TracePart {
    /// Accesses by their numbers.
    Entries(Range<u64>),
    /// Events by the addresses that they touch.
    Addresses(Range<VirtAddr>),
}

impl TracePart {
    /// Selects it.
    pub(crate) fn select(&self, selection: &mut Selection) {
        match self {
            Self::Entries(entries) => selection.entries = Some(entries.clone()),
            Self::Addresses(addresses) => selection.addresses = Some(addresses.clone()),
        }
    }
}

/// Decimal numbers of accesses, or hexadecimal addresses.
pub(crate) fn parse_part(text: &str) -> Result<TracePart, String> {
    let hex = |end: &str| end.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match text.split_once("..").map(|(start, end)| (hex(start), hex(end))) {
        Some((Some(start), Some(end))) if start < end => {
            Ok(TracePart::Addresses(VirtAddr(start)..VirtAddr(end)))
        }
        _ => parse_range(text).map(TracePart::Entries),
    }
}

impl Args {
    fn selection(&self, kinds: Option<KindSet>) -> Selection {
        let mut selection = Selection {
            cycles: self.cycles.clone(),
            thread: self.thread.map(ThreadId),
            kinds: kinds.unwrap_or_default(),
            ..Selection::default()
        };
        if let Some(part) = &self.range {
            part.select(&mut selection);
            if matches!(part, TracePart::Entries(_)) {
                // Only accesses are numbered.
                selection.kinds = kinds.unwrap_or(KindSet::ACCESSES);
            }
        }
        selection
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let kinds = match args.stream.map(DumpStream::kinds) {
        Some(Err(stream)) => return extra(args, stream),
        Some(Ok(kinds)) => Some(kinds),
        None => None,
    };
    let session = inputs::session(&args.file)?;
    let mut exporter = args.format.unwrap_or(DumpFormat::Symbolic).exporter();
    let mut out = Out::stdout();
    export(&session, &args.selection(kinds), &mut *exporter, &mut out)?;
    out.finish()?;
    note_problems(&session);
    Ok(ExitCode::SUCCESS)
}

/// A stream that is no events of the program.
fn extra(args: &Args, stream: ExtraStream) -> Result<ExitCode> {
    let form = match args.format {
        None | Some(DumpFormat::Symbolic) => StreamForm::Text,
        Some(DumpFormat::Jsonl) => StreamForm::JsonLines,
        Some(_) => {
            say!(
                "memtap: --stream {} is no events of a program; it is written as text, or with --format jsonl",
                stream.name()
            );
            return Ok(ExitCode::from(2));
        }
    };
    let session = inputs::session(&args.file)?;
    let mut out = Out::stdout();
    stream
        .write(&session, &args.selection(None), form, &mut out)
        .with_context(|| args.file.display().to_string())?;
    out.finish()?;
    note_problems(&session);
    Ok(ExitCode::SUCCESS)
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
        assert_eq!(parse_part("0x10..0x20"), Ok(TracePart::Addresses(VirtAddr(16)..VirtAddr(32))));
        assert_eq!(parse_part("10..20"), Ok(TracePart::Entries(10..20)));
        assert!(parse_range("seven").unwrap_err().contains("is not a range"));
    }
}
