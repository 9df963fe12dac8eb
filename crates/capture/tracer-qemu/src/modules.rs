//! The modules that the guest's kernel has loaded, and their symbols, read from its list of modules
//! (`struct module`, whose layout is in the BTF). They are in memory that only the kernel's page tables map.

use std::collections::HashSet;
use std::ops::Range;

use crate::kernel::{Kernel, u32_at, u64_at};
use crate::ram::Ram;

/// Where Linux maps modules.
const AREA: Range<u64> = 0xffff_ffff_a000_0000..0xffff_ffff_ff00_0000;
const PAGE: u64 = memref::VirtAddr::PAGE_BYTES;
/// More than a kernel has modules, or a module symbols.
const MAX_MODULES: usize = 4096;
const MAX_SYMBOLS: usize = 1 << 17;
/// Bytes of a module's name, and of a symbol's that are read.
const MODULE_NAME_BYTES: usize = 56;
const NAME_BYTES: usize = 128;
/// Elf64_Sym.
const SYMBOL_BYTES: usize = 24;
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;

/// Modules that are known, by the address of their description and their name: another one may come to be at the same place.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: HashSet<(u64, String)>,
}

/// A symbol, or with an empty name the end of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ModuleSymbol {
    addr: u64,
    name: String,
}

impl Modules {
    /// The symbols of the modules that have come since, by name and address: `name [module]`, and an empty name where nothing is.
    pub(crate) fn learn(&mut self, kernel: &Kernel, ram: &Ram) -> Vec<(String, u64)> {
        let mut symbols = Vec::new();
        for module in list(kernel, ram).unwrap_or_default() {
            let Some(name) = name(kernel, ram, module) else { continue };
            if self.known.insert((module, name.clone())) {
                symbols.extend(of_module(kernel, ram, module, &name).unwrap_or_default());
            }
        }
        symbols.into_iter().map(|symbol| (symbol.name, symbol.addr)).collect()
    }
}

/// The addresses of the descriptions of modules.
fn list(kernel: &Kernel, ram: &Ram) -> Option<Vec<u64>> {
    let (head, offset) = (kernel.symbol("modules")?, kernel.known_field("module", "list")?);
    let mut at = kernel.read_u64(ram, head)?;
    let mut modules = Vec::new();
    while at != head && modules.len() < MAX_MODULES {
        modules.push(at.wrapping_sub(offset));
        at = mapped_u64(kernel, ram, at)?;
    }
    Some(modules)
}

fn name(kernel: &Kernel, ram: &Ram, module: u64) -> Option<String> {
    text(kernel, ram, module.wrapping_add(kernel.known_field("module", "name")?), MODULE_NAME_BYTES)
}

fn of_module(kernel: &Kernel, ram: &Ram, module: u64, name: &str) -> Option<Vec<ModuleSymbol>> {
    let table = mapped_u64(kernel, ram, module.wrapping_add(kernel.known_field("module", "kallsyms")?))?;
    let field = |field| Some(table.wrapping_add(kernel.known_field("mod_kallsyms", field)?));
    let entries = mapped_u64(kernel, ram, field("symtab")?)?;
    let count = mapped_u64(kernel, ram, field("num_symtab")?)? as u32 as usize;
    let texts = mapped_u64(kernel, ram, field("strtab")?)?;
    if count > MAX_SYMBOLS {
        return None;
    }
    let mut bytes = vec![0; count * SYMBOL_BYTES];
    if !read_mapped(kernel, ram, entries, &mut bytes) {
        return None;
    }
    let mut symbols = Vec::new();
    let mut ends = Vec::new();
    for entry in bytes.chunks_exact(SYMBOL_BYTES) {
        let (addr, size) = (u64_at(entry, 8)?, u64_at(entry, 16)?);
        let end = addr.saturating_add(size);
        if !matches!(entry[4] & 0xf, OBJECT | FUNCTION) || !AREA.contains(&addr) || !AREA.contains(&end) {
            continue;
        }
        let place = texts.wrapping_add(u32_at(entry, 0)?.into());
        if let Some(symbol) = text(kernel, ram, place, NAME_BYTES).filter(|symbol| !symbol.is_empty()) {
            symbols.push(ModuleSymbol { addr, name: format!("{symbol} [{name}]") });
            ends.push(end);
        }
    }
    symbols.sort();
    ends.sort_unstable();
    ends.dedup();
    // Where one ends and no other begins.
    ends.retain(|end| symbols.binary_search_by_key(end, |symbol| symbol.addr).is_err());
    symbols.extend(ends.into_iter().map(|addr| ModuleSymbol { addr, name: String::new() }));
    Some(symbols)
}

fn mapped_u64(kernel: &Kernel, ram: &Ram, addr: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read_mapped(kernel, ram, addr, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

/// A text that ends with a zero, of so many bytes at most.
fn text(kernel: &Kernel, ram: &Ram, addr: u64, most: usize) -> Option<String> {
    let mut bytes = vec![0; most];
    let first = most.min((PAGE - addr % PAGE) as usize);
    // The next page need not be there.
    if !read_mapped(kernel, ram, addr, &mut bytes[..first]) {
        return None;
    }
    if !bytes[..first].contains(&0) && first < most {
        read_mapped(kernel, ram, addr.wrapping_add(first as u64), &mut bytes[first..]);
    }
    let end = bytes.iter().position(|&byte| byte == 0)?;
    core::str::from_utf8(&bytes[..end]).ok().map(str::to_owned)
}

/// Reads kernel memory wherever it lies; `false` where it is not all there.
fn read_mapped(kernel: &Kernel, ram: &Ram, addr: u64, out: &mut [u8]) -> bool {
    let mut at = addr;
    let mut rest = out;
    while !rest.is_empty() {
        let here = rest.len().min((PAGE - at % PAGE) as usize);
        let (part, tail) = rest.split_at_mut(here);
        if !kernel.physical_of(ram, at).is_some_and(|place| ram.read(place, part)) {
            return false;
        }
        at = at.wrapping_add(here as u64);
        rest = tail;
    }
    true
}
