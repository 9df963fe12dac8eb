//! The functions named in a file's symbol tables, if these are not stripped.

use crate::bytes::{double, half, word};
use crate::{ElfHeader, LinkAddr};

/// Place of the sections' headers in the file's header, the bytes of one, and how many there are.
const SECTIONS_AT: usize = 40;
const SECTION_BYTES_AT: usize = 58;
const SECTION_COUNT_AT: usize = 60;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const SYMBOL_TABLE: u32 = 2;
const EXPORTED_SYMBOL_TABLE: u32 = 11;
const FUNCTION: u8 = 2;
const LOCAL: u8 = 0;

/// A function with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionSymbol<'a> {
    /// Its name, as linkers know it.
    pub name: &'a [u8],
    /// Its first instruction.
    pub start: LinkAddr,
    /// Only the object that it came from could use the name.
    pub is_local: bool,
}

struct Section<'a> {
    kind: u32,
    bytes: &'a [u8],
    link: u32,
}

fn section(file: &[u8], index: usize) -> Option<Section<'_>> {
    let place = |at| double(file, at).and_then(|value| usize::try_from(value).ok());
    if usize::from(half(file, SECTION_BYTES_AT)?) != SECTION_BYTES {
        return None;
    }
    let at = place(SECTIONS_AT)?.checked_add(index.checked_mul(SECTION_BYTES)?)?;
    let header = file.get(at..at.checked_add(SECTION_BYTES)?)?;
    let value = |at| double(header, at).and_then(|value| usize::try_from(value).ok());
    let (start, len) = (value(24)?, value(32)?);
    // What has no bytes in the file (.bss) is none that is looked at.
    let bytes = file.get(start..start.checked_add(len)?).unwrap_or(&[]);
    Some(Section { kind: word(header, 4)?, bytes, link: word(header, 40)? })
}

/// All functions that the file defines and names, in the order of its tables; one that is also exported comes twice.
pub fn function_symbols(file: &[u8]) -> impl Iterator<Item = FunctionSymbol<'_>> {
    let is_ours = ElfHeader::parse(file).is_ok();
    let count = half(file, SECTION_COUNT_AT).filter(|_| is_ours).map_or(0, usize::from);
    let tables = (0..count)
        .filter_map(move |index| section(file, index))
        .filter(|section| matches!(section.kind, SYMBOL_TABLE | EXPORTED_SYMBOL_TABLE));
    tables.flat_map(move |table| {
        let names = section(file, table.link as usize).map_or(&[][..], |section| section.bytes);
        table.bytes.chunks_exact(SYMBOL_BYTES).filter_map(move |symbol| {
            let (info, section) = (*symbol.get(4)?, half(symbol, 6)?);
            if info & 0xf != FUNCTION || section == 0 {
                return None;
            }
            let name = names.get(word(symbol, 0)? as usize..)?;
            let name = name.get(..name.iter().position(|&byte| byte == 0)?)?;
            Some(FunctionSymbol { name, start: LinkAddr(double(symbol, 8)?), is_local: info >> 4 == LOCAL })
        })
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn the_tests_own_program_names_its_functions() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let header = ElfHeader::parse(&bytes).unwrap();
        let main = function_symbols(&bytes).find(|symbol| symbol.name == b"main").unwrap();
        assert!(!main.is_local);
        let start = function_symbols(&bytes).find(|symbol| symbol.name == b"_start").unwrap();
        assert_eq!(start.start, header.entry);
        assert!(function_symbols(&bytes).all(|symbol| symbol.start != LinkAddr(0)));
    }

    #[test]
    fn a_file_that_ends_early_or_lies_names_less_and_nothing_breaks() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        for len in [0, 10, 63, 64, 4096, bytes.len() / 2, bytes.len() - 1] {
            assert!(function_symbols(&bytes[..len]).count() <= function_symbols(&bytes).count());
        }
        let mut wrong = bytes.clone();
        wrong[SECTIONS_AT..SECTIONS_AT + 8].fill(0xff);
        assert_eq!(function_symbols(&wrong).count(), 0);
        wrong[..bytes.len()].copy_from_slice(&bytes);
        wrong[SECTION_COUNT_AT..SECTION_COUNT_AT + 2].fill(0xff);
        assert!(function_symbols(&wrong).count() > 0);
    }
}
