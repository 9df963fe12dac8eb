//! Names of the guest kernel's functions and variables.

use std::collections::HashSet;
use std::ops::Range;

use memref::VirtAddr;
use trace_format::{StreamKind, Trace};

use crate::Error;

/// Beginnings of the names that Linux's linker script gives to borders, and not to variables.
const LABELS: [&str; 15] = [
    "__start_",
    "__stop_",
    "__end_",
    "__begin_",
    "__init_begin",
    "__init_end",
    "__bss_",
    "__per_cpu_",
    "_text",
    "_stext",
    "_etext",
    "_sdata",
    "_edata",
    "_end",
    "_brk_",
];

/// The kernel's symbols, by address.
#[derive(Clone, Debug, Default)]
pub struct GuestSymbols {
    symbols: Vec<GuestSymbol>,
}

/// One symbol of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GuestSymbol {
    addr: VirtAddr,
    name: String,
}

impl GuestSymbols {
    /// Where Linux maps its image.
    pub(super) const IMAGE: Range<VirtAddr> =
        VirtAddr(0xffff_ffff_8000_0000)..VirtAddr(0xffff_ffff_c000_0000);

    /// Where Linux maps its modules.
    pub(super) const MODULES: Range<VirtAddr> =
        VirtAddr(0xffff_ffff_c000_0000)..VirtAddr(0xffff_ffff_ff00_0000);

    /// These.
    #[cfg(test)]
    pub(super) fn new(symbols: impl Iterator<Item = (VirtAddr, String)>) -> Self {
        let mut symbols: Vec<_> = symbols.map(|(addr, name)| GuestSymbol { addr, name }).collect();
        symbols.sort();
        Self { symbols }
    }

    /// Those of a trace: none where the kernel was not found.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn of(trace: &Trace) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        if let Some(mut cursor) = trace.typed(StreamKind::GuestSymbols, None) {
            while let Some(frame) = cursor.next_frame()? {
                bytes.extend_from_slice(frame.bytes);
            }
        }
        let mut symbols = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some((head, tail)) = rest.split_first_chunk::<2>() {
            let Some((symbol, tail)) = tail.split_at_checked(u16::from_le_bytes(*head).into()) else { break };
            rest = tail;
            if let Some((address, name)) = symbol.split_first_chunk::<8>() {
                let addr = VirtAddr(u64::from_le_bytes(*address));
                symbols.push(GuestSymbol { addr, name: String::from_utf8_lossy(name).into_owned() });
            }
        }
        symbols.sort();
        Ok(Self { symbols })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    fn at(&self, name: &str) -> Option<VirtAddr> {
        self.symbols.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.addr)
    }

    /// The kernel's functions: up to those that it needs only at first, where they come last.
    pub(super) fn text(&self) -> Option<Range<VirtAddr>> {
        Some(self.at("_text")?..self.at("_einittext").or_else(|| self.at("_etext"))?)
    }

    /// The names of the functions that the kernel needs only at first; `None` where it does not say which these are.
    pub(super) fn names_of_start(&self) -> Option<HashSet<&str>> {
        let start = self.at("_sinittext")?..self.at("_einittext")?;
        let first = self.symbols.partition_point(|symbol| symbol.addr < start.start);
        let of_start = self.symbols[first..].iter().take_while(|symbol| symbol.addr < start.end);
        Some(of_start.map(|symbol| symbol.name.as_str()).collect())
    }

    /// The kernel symbol at or before an address of the kernel's image, or the symbol of a module that the address lies in.
    pub fn name(&self, addr: VirtAddr) -> Option<&str> {
        // Of several names of one place the first.
        self.nearest(addr)?.1.next()
    }

    /// The variable at an address of the kernel's image or of a module. The kernel does not say how long its variables are, so
    /// that far behind one nothing is known but that: the next ones need not have names.
    pub(super) fn variable(&self, addr: VirtAddr) -> Option<String> {
        let is_label = |name: &str| LABELS.iter().any(|label| name.starts_with(label));
        let (start, mut names) = self.nearest(addr)?;
        let first = names.next()?;
        let name = std::iter::once(first).chain(names).find(|name| !is_label(name));
        let is_near = addr.0 - start.0 < VirtAddr::PAGE_BYTES || GuestSymbols::MODULES.contains(&addr);
        Some(match name {
            Some(name) if is_near => name.to_owned(),
            _ => format!("[kernel data after {}]", name.unwrap_or(first)),
        })
    }

    /// The last place with a name at or before an address in the same area, and its names.
    fn nearest(&self, addr: VirtAddr) -> Option<(VirtAddr, impl Iterator<Item = &str>)> {
        let area = [Self::IMAGE, Self::MODULES].into_iter().find(|area| area.contains(&addr))?;
        let place = self.symbols.partition_point(|symbol| symbol.addr <= addr).checked_sub(1)?;
        let start = self.symbols.get(place)?.addr;
        if !area.contains(&start) {
            return None;
        }
        let first = self.symbols.partition_point(|symbol| symbol.addr < start);
        let here = self.symbols[first..].iter().take_while(move |symbol| symbol.addr == start);
        // Where there is none, a symbol has ended.
        let names = here.filter(|symbol| !symbol.name.is_empty()).map(|symbol| symbol.name.as_str());
        Some((start, names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_symbol_before_is_the_name() {
        let symbol = |addr: u64, name: &str| GuestSymbol { addr: VirtAddr(addr), name: name.to_owned() };
        let base = 0xffff_ffff_8100_0000;
        let symbols = GuestSymbols {
            symbols: vec![
                symbol(0x1000, "percpu"),
                symbol(base, "_text"),
                symbol(base, "startup"),
                symbol(base + 9, "next"),
            ],
        };
        assert_eq!(symbols.name(VirtAddr(base + 5)), Some("_text"));
        assert_eq!(symbols.name(VirtAddr(base + 9)), Some("next"));
        assert_eq!(symbols.name(VirtAddr(base - 1)), None);
        assert_eq!(symbols.name(VirtAddr(0x1004)), None);
    }

    #[test]
    fn what_is_no_variable_is_not_called_one() {
        let base = 0xffff_ffff_8200_0000;
        let names = [(0, "__end_rodata"), (0x10, "__start_data"), (0x10, "counter"), (0x20, "banner")];
        let symbols =
            GuestSymbols::new(names.into_iter().map(|(at, name)| (VirtAddr(base + at), name.to_owned())));
        let variable = |at: u64| symbols.variable(VirtAddr(base + at));
        assert_eq!(variable(8).as_deref(), Some("[kernel data after __end_rodata]"));
        assert_eq!(variable(0x10).as_deref(), Some("counter"));
        assert_eq!(variable(0x1000).as_deref(), Some("banner"));
        assert_eq!(variable(0x1020).as_deref(), Some("[kernel data after banner]"));
        assert_eq!(symbols.variable(VirtAddr(base - 1)), None);
    }

    #[test]
    fn a_symbol_of_a_module_ends() {
        let base = 0xffff_ffff_c012_3000;
        let names =
            [(0, "first [one]"), (0x40, ""), (0x60, "second [one]"), (0x80, ""), (0x80, "third [two]")];
        let symbols =
            GuestSymbols::new(names.into_iter().map(|(at, name)| (VirtAddr(base + at), name.to_owned())));
        assert_eq!(symbols.name(VirtAddr(base + 0x3f)), Some("first [one]"));
        assert_eq!(symbols.name(VirtAddr(base + 0x40)), None);
        assert_eq!(symbols.name(VirtAddr(base + 0x7f)), Some("second [one]"));
        assert_eq!(symbols.name(VirtAddr(base + 0x90)), Some("third [two]"));
        assert_eq!(symbols.name(VirtAddr(base - 1)), None);
    }
}
