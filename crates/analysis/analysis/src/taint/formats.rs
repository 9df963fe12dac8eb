//! Functions whose format string determines what they read and write.
//!
//! The internal function that reads the format is found by its entry: it is reached from the known
//! functions through a fixed number of unnamed functions, and it calls itself for streams without a
//! buffer. It reads the directives byte by byte. It copies the text before the first directive and then
//! reads the byte behind that text, which it would not do if the text did not belong to the format.

use memref::{Access, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::Resolver;

use crate::labelled::{Label, LabelledBytes, OpenCall, ProgramCode, Successor};

/// Functions with a format, and how many unnamed functions of the C library lie between them and the one that reads it.
const FORMATTERS: &[(&str, usize)] = &[
    ("printf", 0),
    ("fprintf", 0),
    ("vprintf", 0),
    ("vfprintf", 0),
    ("sprintf", 1),
    ("snprintf", 1),
    ("vsprintf", 1),
    ("vsnprintf", 1),
    ("dprintf", 1),
    ("vdprintf", 1),
    ("asprintf", 1),
    ("vasprintf", 1),
];
/// Calls between one of them and what it copies a text with.
const MAX_DEPTH: usize = 8;
/// Ends of copied texts that are kept for a call.
const MAX_ENDS: usize = 64;

/// A function with a format, and the number of unnamed functions behind it.
type Formatter = (&'static str, usize);

/// A call of a function with a format, of those that have not returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct FormatCall {
    pub(super) name: &'static str,
    /// Where the program called it.
    pub(super) caller: Option<VirtAddr>,
    /// The call that entered the function that reads the format, by its place in the list.
    pub(super) reader: usize,
}

/// What a reader of a format has copied.
#[derive(Clone, Debug)]
struct Copied {
    reader: OpenCall,
    depth: usize,
    ends: Vec<(VirtAddr, Label)>,
}

/// What one thread's innermost reader of a format has copied.
#[derive(Debug, Default)]
pub(super) struct FormatTexts {
    copied: Option<Copied>,
    /// Calls that were looked at, by their address.
    known: FxHashMap<VirtAddr, Option<Formatter>>,
}

impl FormatTexts {
    /// The innermost call of a function with a format.
    pub(super) fn call(
        &mut self,
        code: &mut ProgramCode,
        resolver: &mut Resolver,
        calls: &[OpenCall],
    ) -> Option<FormatCall> {
        let first = calls.len().saturating_sub(MAX_DEPTH);
        let (at, (name, levels)) = (first..calls.len()).rev().find_map(|index| {
            let from = calls[index].from;
            let known = self.known.entry(from).or_insert_with(|| formatter(resolver, from));
            known.map(|formatter| (index, formatter))
        })?;
        let outermost = at + levels;
        let entry = entry(code, resolver, calls.get(outermost)?)?;
        let reader = (outermost..calls.len())
            .rev()
            .find(|&index| self::entry(code, resolver, &calls[index]) == Some(entry))?;
        Some(FormatCall {
            name,
            caller: at.checked_sub(1).and_then(|index| calls.get(index)).map(|call| call.from),
            reader,
        })
    }

    /// A function below the reader read labelled bytes.
    pub(super) fn copied(
        &mut self,
        memory: &LabelledBytes,
        calls: &[OpenCall],
        call: &FormatCall,
        accesses: &[Access],
    ) {
        let Some(&reader) = calls.get(call.reader) else { return };
        let copied =
            self.copied.get_or_insert_with(|| Copied { reader, depth: call.reader, ends: Vec::new() });
        if copied.reader != reader {
            *copied = Copied { reader, depth: call.reader, ends: Vec::new() };
        }
        for access in accesses.iter().filter(|access| access.kind.reads() && access.size > 0) {
            let end = access.addr.offset(access.size.into());
            let label = memory.get(VirtAddr(end.0 - 1));
            if label != 0 && copied.ends.len() < MAX_ENDS {
                copied.ends.push((end, label));
            }
        }
    }

    /// The label of the text that ends where the reader reads a byte now.
    pub(super) fn before(&self, calls: &[OpenCall], accesses: &[Access]) -> Option<Label> {
        let copied = self.copied.as_ref()?;
        let [access] = accesses else { return None };
        let is_reader = calls.len() == copied.depth + 1 && calls.last() == Some(&copied.reader);
        let is_byte = access.size == 1 && access.kind.reads();
        let mut ends = copied.ends.iter().filter(|_| is_reader && is_byte);
        ends.find(|(end, _)| *end == access.addr).map(|&(_, label)| label)
    }

    /// Calls may have returned: what another call copied is none of the next one's format.
    pub(super) fn leave(&mut self, calls: &[OpenCall]) {
        if self.copied.as_ref().is_some_and(|copied| calls.get(copied.depth) != Some(&copied.reader)) {
            self.copied = None;
        }
    }
}

/// The function that makes a call, if it is one with a format.
fn formatter(resolver: &mut Resolver, from: VirtAddr) -> Option<Formatter> {
    let name = resolver.code_name(from)?.function.clone()?;
    let plain = name.trim_start_matches('_').trim_start_matches("IO_").trim_end_matches("_chk");
    FORMATTERS.iter().find(|(formatter, _)| *formatter == plain).copied()
}

/// Where a direct call leads.
fn entry(code: &mut ProgramCode, resolver: &Resolver, call: &OpenCall) -> Option<VirtAddr> {
    match code.at(resolver, call.from)?.successor {
        Successor::Call(target) => Some(target),
        _ => None,
    }
}
