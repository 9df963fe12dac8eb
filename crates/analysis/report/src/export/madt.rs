//! Events in MadT's line format: raw with addresses, symbolic with names, or both. docs/guide.md explains the letters.

use std::fmt::Write as _;
use std::io::Write;

use analysis::Moment;
use memref::{Access, Allocation, AllocationKind, BlockOp, Event, MarkerKind, VirtAddr};
use symbols::Resolver;

use super::letters::{Letter, letter};
use super::names::{code_name, data_name, region_name, variable_name};
use super::{AccessBytes, EventOrder, Exporter, Needs};
use crate::Error;
use crate::number::missing;

/// A line an event, or two.
#[derive(Debug)]
pub struct Madt {
    /// Whether there is a line with addresses.
    raw: bool,
    /// Whether there is a line with names.
    symbolic: bool,
    /// The number of the next event.
    number: u64,
    lines: String,
}

impl Madt {
    /// Lines with addresses.
    pub fn raw() -> Self {
        Self { raw: true, symbolic: false, number: 0, lines: String::new() }
    }

    /// Lines with names.
    pub fn symbolic() -> Self {
        Self { raw: false, symbolic: true, ..Self::raw() }
    }

    /// A line of each for each event.
    pub fn both() -> Self {
        Self { raw: true, symbolic: true, ..Self::raw() }
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }

    // Writing to a string can't fail.

    fn access(&mut self, resolver: &mut Resolver, access: &Access, kind: Letter, number: u64) {
        let Some(letter) = letter(kind) else { return };
        let region = region_name(resolver, access.addr);
        if self.raw {
            let _ = writeln!(self.lines, "{letter}#{number}:{},{region},{}", access.addr, access.ip);
        }
        if self.symbolic {
            let name = data_name(resolver, access.addr);
            let code = code_name(resolver, access.ip);
            let _ = writeln!(self.lines, "{letter}${number}:{name},{region},{code}");
        }
    }

    fn block(&mut self, resolver: &mut Resolver, block: &BlockOp) {
        let number = self.next_number();
        let Some(letter) = letter(Letter::Block(block.kind)) else { return };
        let places = [block.dst, block.src].into_iter().filter(|addr| *addr != VirtAddr(0));
        let function = block.function;
        if self.raw {
            let _ = write!(self.lines, "{letter}#{number}:");
            for addr in places.clone() {
                let _ = write!(self.lines, "{addr},{},", region_name(resolver, addr));
            }
            let _ = writeln!(self.lines, "{},{function},{}", block.len, block.ip);
        }
        if self.symbolic {
            let _ = write!(self.lines, "{letter}${number}:");
            for addr in places {
                let (name, region) = (data_name(resolver, addr), region_name(resolver, addr));
                let _ = write!(self.lines, "{name},{region},");
            }
            let code = code_name(resolver, block.ip);
            let _ = writeln!(self.lines, "{},{function},{code}", block.len);
        }
    }

    fn allocation(&mut self, resolver: &mut Resolver, event: &Allocation) {
        let Some(letter) = letter(Letter::Allocation(event.kind)) else { return };
        let number = self.next_number();
        let bytes = match event.kind {
            AllocationKind::Free => String::new(),
            _ => format!(",{}", event.len),
        };
        if self.raw {
            let _ = writeln!(self.lines, "{letter}#{number}:{}{bytes}", event.addr);
        }
        if self.symbolic {
            let name = variable_name(resolver, event.addr).unwrap_or_default();
            let _ = writeln!(self.lines, "{letter}${number}:{name}{bytes}");
        }
    }

    fn put(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        let written = out.write_all(self.lines.as_bytes());
        self.lines.clear();
        Ok(written?)
    }
}

impl Exporter for Madt {
    fn needs(&self) -> Needs {
        Needs { events: EventOrder::Session, ..Needs::default() }
    }

    fn accesses(
        &mut self,
        at: &mut Moment<'_>,
        accesses: &[Access],
        _: &mut AccessBytes,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        for access in accesses {
            // A modify is what the paper logs as two: a load, then a store.
            let number = self.next_number();
            if access.kind.reads() {
                self.access(at.resolver, access, Letter::Load, number);
            }
            if access.kind.writes() {
                self.access(at.resolver, access, Letter::Store, number);
            }
            self.put(out)?;
        }
        Ok(())
    }

    fn event(
        &mut self,
        at: &mut Moment<'_>,
        event: &Event<String>,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        match event {
            Event::Block(block) => self.block(at.resolver, block),
            Event::Allocation(event) => self.allocation(at.resolver, event),
            Event::Marker(marker) if marker.kind == MarkerKind::Mark => {
                let _ = writeln!(self.lines, "/* {} */", marker.name.replace("*/", "* /"));
            }
            Event::Gap(gap) => {
                let _ = writeln!(self.lines, "/* {}: {} */", missing(gap.count), gap.reason);
            }
            // They have no line in the paper; accesses come by themselves.
            Event::Marker(_) | Event::Order(_) | Event::Sync(_) | Event::Access(_) => {}
        }
        self.put(out)
    }
}
