//! Symbols, and which of them owns an address.

use std::borrow::Cow;

use elf::LinkAddr;

use super::SectionKind;
use crate::demangle::demangle;

/// What a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SymbolKind {
    /// Code.
    Function,
    /// A variable or constant.
    Data,
    /// A thread-local variable; its address is an offset into the template.
    Tls,
}

/// A symbol of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Address.
    pub address: LinkAddr,
    /// Bytes; where the file says none, up to the next symbol or the end of the section.
    pub bytes: u64,
    /// The name in the file.
    pub raw_name: &'a str,
    /// What it names.
    pub kind: SymbolKind,
    /// What the section it lies in is for.
    pub section: SectionKind,
    /// Whether other files can't see it.
    pub local: bool,
}

impl<'a> Symbol<'a> {
    /// The name as programmers write it.
    pub fn name(&self) -> Cow<'a, str> {
        demangle(self.raw_name)
    }
}

/// A symbol as it is collected.
#[derive(Clone, Debug)]
pub(crate) struct SymbolEntry {
    pub(crate) address: LinkAddr,
    pub(crate) bytes: u64,
    pub(crate) name_start: u32,
    pub(crate) name_len: u32,
    pub(crate) kind: SymbolKind,
    pub(crate) section: SectionKind,
    pub(crate) local: bool,
    /// The file gives no size.
    pub(crate) unsized_: bool,
}

/// All symbols of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct SymbolTable {
    names: String,
    /// Sorted by address, the best name for it first.
    entries: Vec<SymbolEntry>,
    /// Where the owner of an address changes: from here on it is that entry, or none. Sorted.
    changes: Vec<(LinkAddr, Option<u32>)>,
}

impl SymbolTable {
    pub(crate) fn push(&mut self, name: &str, mut entry: SymbolEntry) {
        let (Ok(start), Ok(len)) = (u32::try_from(self.names.len()), u32::try_from(name.len())) else {
            return;
        };
        if start.checked_add(len).is_none() || entry.address.0.checked_add(entry.bytes).is_none() {
            return;
        }
        self.names.push_str(name);
        (entry.name_start, entry.name_len) = (start, len);
        self.entries.push(entry);
    }

    /// Adds the symbols of another table, before `finish`.
    pub(crate) fn append(&mut self, other: &Self) {
        for entry in &other.entries {
            self.push(text(&other.names, entry), entry.clone());
        }
    }

    /// Sorts, gives symbols without a size their extent, and finds who owns what. `section_end` gives the end of the
    /// section that holds an address.
    pub(crate) fn finish(&mut self, section_end: impl Fn(LinkAddr) -> Option<LinkAddr>) {
        let names = std::mem::take(&mut self.names);
        let name = |entry: &SymbolEntry| text(&names, entry);
        self.entries.sort_by(|a, b| {
            let rank = |entry: &SymbolEntry| {
                let name = name(entry);
                let underscores = name.bytes().take_while(|&byte| byte == b'_').count();
                (
                    entry.address,
                    entry.kind == SymbolKind::Tls,
                    entry.unsized_,
                    underscores,
                    entry.local,
                    name.len(),
                )
            };
            rank(a).cmp(&rank(b)).then_with(|| name(a).cmp(name(b)))
        });
        self.entries.dedup_by(|a, b| {
            (a.address, a.kind) == (b.address, b.kind)
                && name(a) == name(b)
                && (a.unsized_ || a.bytes == b.bytes)
        });
        let mut next = LinkAddr::MAX;
        let mut following = LinkAddr::MAX;
        for entry in self.entries.iter_mut().rev().filter(|entry| entry.kind != SymbolKind::Tls) {
            if entry.address != next {
                (following, next) = (next, entry.address);
            }
            if entry.unsized_ {
                let end = section_end(entry.address).unwrap_or(entry.address).min(following);
                entry.bytes = end.checked_sub(entry.address).unwrap_or(0);
            }
        }
        self.names = names;
        self.changes = owners(&self.entries);
    }

    /// The symbol that owns an address, the innermost where they nest; and the range around the address with that
    /// answer.
    pub(crate) fn find(&self, address: LinkAddr) -> (LinkAddr, LinkAddr, Option<Symbol<'_>>) {
        let after = self.changes.partition_point(|change| change.0 <= address);
        let end = self.changes.get(after).map_or(LinkAddr::MAX, |change| change.0);
        match after.checked_sub(1).and_then(|i| self.changes.get(i)) {
            Some(&(start, owner)) => (start, end, owner.and_then(|i| self.get(i as usize))),
            None => (LinkAddr(0), end, None),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Symbol<'_>> {
        self.entries.get(index).map(|entry| self.symbol(entry))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.entries.iter().map(|entry| self.symbol(entry))
    }

    fn symbol(&self, entry: &SymbolEntry) -> Symbol<'_> {
        Symbol {
            address: entry.address,
            bytes: entry.bytes,
            raw_name: text(&self.names, entry),
            kind: entry.kind,
            section: entry.section,
            local: entry.local,
        }
    }
}

fn text<'a>(names: &'a str, entry: &SymbolEntry) -> &'a str {
    let start = entry.name_start as usize;
    names.get(start..start + entry.name_len as usize).unwrap_or("")
}

/// Sweeps over the entries in the order of addresses; those that begin later and are still open are the inner ones.
fn owners(entries: &[SymbolEntry]) -> Vec<(LinkAddr, Option<u32>)> {
    let mut changes: Vec<(LinkAddr, Option<u32>)> = Vec::with_capacity(entries.len() * 2);
    let mut open: Vec<(LinkAddr, u32)> = Vec::new();
    let mut set = |at: LinkAddr, owner: Option<u32>| match changes.last_mut() {
        Some(last) if last.0 == at => last.1 = owner,
        Some(last) if last.1 == owner => {}
        _ => changes.push((at, owner)),
    };
    let close =
        |open: &mut Vec<(LinkAddr, u32)>, until: LinkAddr, set: &mut dyn FnMut(LinkAddr, Option<u32>)| {
            while let Some(&(end, _)) = open.last().filter(|top| top.0 <= until) {
                open.pop();
                while open.last().is_some_and(|top| top.0 <= end) {
                    open.pop();
                }
                set(end, open.last().map(|top| top.1));
            }
        };
    let mut last_address = None;
    for (index, entry) in entries.iter().enumerate() {
        if entry.bytes == 0 || entry.kind == SymbolKind::Tls || last_address == Some(entry.address) {
            continue;
        }
        last_address = Some(entry.address);
        close(&mut open, entry.address, &mut set);
        open.push((entry.address.offset(entry.bytes), index as u32));
        set(entry.address, Some(index as u32));
    }
    close(&mut open, LinkAddr::MAX, &mut set);
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(symbols: &[(&str, u64, u64)]) -> SymbolTable {
        let mut table = SymbolTable::default();
        for &(name, address, bytes) in symbols {
            let entry = SymbolEntry {
                address: LinkAddr(address),
                bytes,
                name_start: 0,
                name_len: 0,
                kind: SymbolKind::Data,
                section: SectionKind::Data,
                local: false,
                unsized_: bytes == 0,
            };
            table.push(name, entry);
        }
        table.finish(|_| Some(LinkAddr(1000)));
        table
    }

    fn check(symbols: &[(&str, u64, u64)], address: u64, expect: Option<(&str, u64)>) {
        let (table, address) = (table(symbols), LinkAddr(address));
        let (start, end, found) = table.find(address);
        assert!(start <= address && address < end);
        assert_eq!(found.map(|s| (s.raw_name, address.0 - s.address.0)), expect);
    }

    #[test]
    fn sizes_bound_symbols() {
        let symbols = [("a", 10, 4), ("b", 20, 4)];
        check(&symbols, 9, None);
        check(&symbols, 10, Some(("a", 0)));
        check(&symbols, 13, Some(("a", 3)));
        check(&symbols, 14, None);
        check(&symbols, 23, Some(("b", 3)));
        check(&symbols, 24, None);
    }

    #[test]
    fn no_size_reaches_to_the_next_symbol_or_the_end_of_the_section() {
        let symbols = [("a", 10, 0), ("b", 20, 4), ("c", 30, 0)];
        check(&symbols, 19, Some(("a", 9)));
        check(&symbols, 999, Some(("c", 969)));
        check(&symbols, 1000, None);
    }

    #[test]
    fn inner_symbols_win() {
        let symbols = [("outer", 10, 100), ("inner", 20, 10), ("crossing", 105, 10)];
        check(&symbols, 19, Some(("outer", 9)));
        check(&symbols, 20, Some(("inner", 0)));
        check(&symbols, 30, Some(("outer", 20)));
        check(&symbols, 106, Some(("crossing", 1)));
        check(&symbols, 114, Some(("crossing", 9)));
        check(&symbols, 115, None);
    }

    #[test]
    fn aliases_give_the_plainest_name() {
        check(&[("__environ", 10, 8), ("_environ", 10, 8), ("environ", 10, 8)], 12, Some(("environ", 2)));
        check(&[("label", 10, 0), ("__object", 10, 8)], 12, Some(("__object", 2)));
    }

    #[test]
    fn absurd_sizes_are_dropped() {
        check(&[("a", u64::MAX - 1, 10), ("b", 5, 1)], 5, Some(("b", 0)));
    }
}
