//! The guest's Linux kernel, read from its memory: its symbols (kallsyms) and the layout of its structures (BTF).
//!
//! Every distribution's kernel contains both, so neither a symbol file nor a setting in the guest is needed,
//! and a kernel at a randomised address makes no difference. The tables are found by searching all of memory
//! for their expected form. The orders of tables of Linux 4.20 to 6.1, and of 6.4 and later, are known.

use std::collections::HashMap;

use crate::ram::Ram;

const PAGE: u64 = memref::VirtAddr::PAGE_BYTES;
const CHUNK: usize = 1 << 20;
/// More than the tables of the largest kernels.
const TABLES_BYTES: usize = 24 << 20;
/// What the tables of tokens contain: the digits stand for themselves.
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00";
/// Symbols of a kernel. Two markers need more than 256.
const MIN_SYMBOLS: usize = 257;
const MAX_SYMBOLS: usize = 1 << 20;

/// Symbols and where the kernel's image lies.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    symbols: HashMap<String, u64>,
    /// Virtual minus physical address of the kernel's image.
    image: u64,
    /// The same for the kernel's map of all memory.
    direct: u64,
    /// Of structures: (structure, field) to offset in bytes.
    fields: HashMap<(&'static str, &'static str), u64>,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

const fn up(at: usize, to: usize) -> usize {
    at.next_multiple_of(to)
}

/// Where a byte string occurs.
fn occurrences<'a>(bytes: &'a [u8], what: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = what[0];
    bytes
        .iter()
        .enumerate()
        .filter(move |&(at, &byte)| byte == first && bytes[at..].starts_with(what))
        .map(|(at, _)| at)
}

/// The tables of tokens around an occurrence of the digits: where the tokens and their index lie.
fn tokens(bytes: &[u8], digits: usize) -> Option<(usize, usize)> {
    // 48 tokens come before the digit 0. What comes before the first of them need not be a zero.
    let mut second = digits;
    for _ in 1..0x30 {
        let body = bytes.get(..second.checked_sub(1)?)?;
        second = body.iter().rposition(|&byte| byte == 0)? + 1;
    }
    let mut end = second;
    let mut offsets = Vec::with_capacity(255);
    for _ in 1..256 {
        offsets.push(end - second);
        end += bytes.get(end..)?.iter().take(64).position(|&byte| byte == 0)? + 1;
    }
    [8, 4, 2].into_iter().find_map(|align| {
        let index = up(end, align);
        let first = usize::from(u16_at(bytes, index + 2)?);
        let right = |(number, &offset): (usize, &usize)| {
            u16_at(bytes, index + 2 + 2 * number) == Some((first + offset) as u16)
        };
        let start = second.checked_sub(first)?;
        (u16_at(bytes, index) == Some(0) && offsets.iter().enumerate().all(right)).then_some((start, index))
    })
}

/// Symbols in the kernel's tables; `bytes` hold them, `tokens` and `index` are where those of the tokens lie.
fn symbols(bytes: &[u8], tokens: usize, index: usize) -> Option<HashMap<String, u64>> {
    // Before the tokens are the markers, which are places in the names; from 6.2 on (and in later 6.1) with three bytes a
    // symbol in between. Before the markers the names, and before these their number.
    let last = tokens.checked_sub(16)? & !7;
    let places = (0..TABLES_BYTES.min(last) / 8).map(|step| last - step * 8);
    let (names, count) = places.filter_map(|at| Some((at, u64_at(bytes, at)?))).find_map(|(at, count)| {
        let (names, count) = (at + 8, usize::try_from(count).ok()?);
        if !(MIN_SYMBOLS..MAX_SYMBOLS).contains(&count) {
            return None;
        }
        let fits = |between: usize| {
            let markers = tokens.checked_sub(between + up(4 * count.div_ceil(256), 8))?;
            let second = u32_at(bytes, markers + 4)? as usize;
            let right = markers > names && u32_at(bytes, markers)? == 0 && marker_holds(bytes, names, second);
            right.then_some((names, count))
        };
        fits(0).or_else(|| fits(up(3 * count, 8)))
    })?;
    // Where the addresses are: before the number of symbols, or after the index of tokens.
    let before = names
        .checked_sub(16)
        .and_then(|base| Some((base.checked_sub(up(4 * count, 8))?, u64_at(bytes, base)?)));
    let after = {
        let offsets = up(index + 512, 8);
        u64_at(bytes, up(offsets + 4 * count, 8)).map(|base| (offsets, base))
    };
    let (offsets, base) =
        [before, after].into_iter().flatten().find(|(_, base)| base >> 31 == 0x1_ffff_ffff)?;
    let offset = |number: usize| u32_at(bytes, offsets + 4 * number).map(|offset| offset as i32);
    // Negative ones are relative to the base where per-CPU symbols are absolute; all are where none is negative.
    let per_cpu = (0..count).any(|number| offset(number).is_some_and(|offset| offset < 0));
    let mut found = HashMap::with_capacity(count);
    let mut at = names;
    for number in 0..count {
        let name = name(bytes, &mut at, tokens, index)?;
        let offset = offset(number)?;
        let address = match (per_cpu, offset) {
            (true, offset) if offset < 0 => base.wrapping_sub(1).wrapping_sub(i64::from(offset) as u64),
            (true, offset) => offset as u64,
            (false, offset) => base.wrapping_add(u64::from(offset as u32)),
        };
        // The first character is the symbol's kind.
        if let Some(name) = name.get(1..) {
            found.entry(name.to_owned()).or_insert(address);
        }
    }
    Some(found)
}

/// Bytes of a name's tokens, after its length.
fn name_len(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let first = usize::from(*bytes.get(at)?);
    if first & 0x80 == 0 {
        return Some((1, first));
    }
    Some((2, first & 0x7f | usize::from(*bytes.get(at + 1)?) << 7))
}

/// Whether 256 names from there take that many bytes.
fn marker_holds(bytes: &[u8], names: usize, second: usize) -> bool {
    let mut at = names;
    for _ in 0..256 {
        let Some((head, len)) = name_len(bytes, at) else { return false };
        at += head + len;
        if at > names + second {
            return false;
        }
    }
    at == names + second
}

fn name(bytes: &[u8], at: &mut usize, tokens: usize, index: usize) -> Option<String> {
    let (head, len) = name_len(bytes, *at)?;
    let codes = bytes.get(*at + head..*at + head + len)?;
    *at += head + len;
    let mut name = String::new();
    for &code in codes {
        let token = tokens + usize::from(u16_at(bytes, index + 2 * usize::from(code))?);
        let rest = bytes.get(token..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        name.push_str(core::str::from_utf8(&rest[..end]).ok()?);
    }
    Some(name)
}

/// Offsets of fields in a BTF blob (the kernel's own description of its types).
fn btf_fields(
    bytes: &[u8],
    wanted: &[(&'static str, &'static str)],
) -> Option<HashMap<(&'static str, &'static str), u64>> {
    const MAGIC: u16 = 0xeb9f;
    const STRUCT: u32 = 4;
    if u16_at(bytes, 0)? != MAGIC {
        return None;
    }
    let header = u32_at(bytes, 4)? as usize;
    let types = header + u32_at(bytes, 8)? as usize;
    let types_end = types + u32_at(bytes, 12)? as usize;
    let strings = header + u32_at(bytes, 16)? as usize;
    let text = |offset: u32| {
        let rest = bytes.get(strings + offset as usize..)?;
        rest.split(|&byte| byte == 0).next()
    };
    let mut found = HashMap::new();
    let mut at = types;
    while at + 12 <= types_end {
        let (name, info) = (u32_at(bytes, at)?, u32_at(bytes, at + 4)?);
        let (count, kind, flag) = ((info & 0xffff) as usize, info >> 24 & 0x1f, info >> 31 != 0);
        at += 12;
        if kind == STRUCT
            && let Some(&(structure, _)) =
                wanted.iter().find(|(structure, _)| text(name) == Some(structure.as_bytes()))
        {
            for member in 0..count {
                let member = at + 12 * member;
                let name = text(u32_at(bytes, member)?);
                let bits = u32_at(bytes, member + 8)? & if flag { 0xff_ffff } else { u32::MAX };
                if let Some(&field) =
                    wanted.iter().find(|(of, field)| *of == structure && name == Some(field.as_bytes()))
                {
                    found.entry(field).or_insert(u64::from(bits) / 8);
                }
            }
        }
        at += match kind {
            // integer, variable, declaration tag
            1 | 14 | 17 => 4,
            // array
            3 => 12,
            // structure, union, enumeration of 64 bits
            4 | 5 | 19 => 12 * count,
            // enumeration, parameters of a function
            6 | 13 => 8 * count,
            // section
            15 => 12 * count,
            _ => 0,
        };
    }
    Some(found)
}

const FIELDS: &[(&str, &str)] = &[
    ("task_struct", "pid"),
    ("task_struct", "tgid"),
    ("task_struct", "comm"),
    ("task_struct", "real_parent"),
];

/// What else is used where it is there: of modules, which a kernel may not have.
const FIELDS_OF_MODULES: &[(&str, &str)] = &[
    ("module", "list"),
    ("module", "name"),
    ("module", "kallsyms"),
    ("mod_kallsyms", "symtab"),
    ("mod_kallsyms", "num_symtab"),
    ("mod_kallsyms", "strtab"),
];

impl Kernel {
    /// Searches memory for the kernel. The error says what is missing.
    pub(crate) fn find(ram: &Ram) -> Result<Self, &'static str> {
        let mut chunk = vec![0; CHUNK + DIGITS.len()];
        for span in ram.touched() {
            for start in (span.start..span.end).step_by(CHUNK) {
                let len = (chunk.len() as u64).min(span.end - start) as usize;
                if !ram.read(start, &mut chunk[..len]) {
                    continue;
                }
                for at in occurrences(&chunk[..len], DIGITS) {
                    if let Some(found) = Self::around(ram, start + at as u64) {
                        return found;
                    }
                }
            }
        }
        Err("the guest's memory holds no table of kernel symbols that is understood")
    }

    /// The kernel whose table of tokens has its digits there.
    fn around(ram: &Ram, digits: u64) -> Option<Result<Self, &'static str>> {
        let piece = ram.layout().piece(digits)?;
        let first = (digits.saturating_sub(TABLES_BYTES as u64) & !(PAGE - 1)).max(piece.start);
        let last = (digits + TABLES_BYTES as u64).min(piece.end);
        let mut bytes = vec![0; (last - first) as usize];
        if !ram.read(first, &mut bytes) {
            return None;
        }
        let (tokens, index) = tokens(&bytes, (digits - first) as usize)?;
        let symbols = symbols(&bytes, tokens, index)?;
        Some(Self::complete(ram, symbols))
    }

    /// The rest: where the kernel lies, and its types.
    fn complete(ram: &Ram, symbols: HashMap<String, u64>) -> Result<Self, &'static str> {
        let mut kernel = Self { symbols, ..Self::default() };
        let banner = kernel.symbol("linux_banner").ok_or("the kernel has no symbol linux_banner")?;
        kernel.image = kernel.find_image(ram, banner).ok_or("the kernel's image was not found")?;
        kernel.look_again(ram);
        let (Some(start), Some(stop)) = (kernel.symbol("__start_BTF"), kernel.symbol("__stop_BTF")) else {
            return Err("the kernel does not describe its types (CONFIG_DEBUG_INFO_BTF)");
        };
        let mut blob = vec![0; usize::try_from(stop.saturating_sub(start)).unwrap_or(0).min(64 << 20)];
        let place = kernel.physical(start).ok_or("the description of types was not found")?;
        if !ram.read(place, &mut blob) {
            return Err("the description of types was not found");
        }
        let fields = [FIELDS, FIELDS_OF_MODULES].concat();
        kernel.fields = btf_fields(&blob, &fields).ok_or("the description of types is not understood")?;
        if FIELDS.iter().any(|field| !kernel.fields.contains_key(field)) {
            return Err("the description of types lacks task_struct");
        }
        Ok(kernel)
    }

    /// Reads what the kernel chooses while it starts: where its map of all memory begins.
    pub(crate) fn look_again(&mut self, ram: &Ram) {
        let base = self.symbol("page_offset_base").and_then(|at| self.read_u64(ram, at));
        self.direct = base.unwrap_or(0xffff_8880_0000_0000);
    }

    /// Virtual minus physical address of the image: the banner's text, at its place in a page.
    fn find_image(&self, ram: &Ram, banner: u64) -> Option<u64> {
        const TEXT: &[u8] = b"Linux version ";
        let mut text = [0; TEXT.len()];
        ram.touched().into_iter().find_map(|span| {
            let first = (span.start & !(PAGE - 1)) + (banner & (PAGE - 1));
            (first..span.end).step_by(PAGE as usize).find_map(|at| {
                // A kernel starts at a multiple of 2 MiB, and its image has no holes.
                let right =
                    ram.read(at, &mut text) && text == TEXT && banner.wrapping_sub(at) & 0x1f_ffff == 0;
                right.then(|| banner.wrapping_sub(at))
            })
        })
    }

    /// The address of a symbol.
    pub(crate) fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    /// All symbols.
    pub(crate) fn symbols(&self) -> &HashMap<String, u64> {
        &self.symbols
    }

    /// Where a field lies in its structure.
    pub(crate) fn field(&self, structure: &'static str, field: &'static str) -> u64 {
        self.fields.get(&(structure, field)).copied().unwrap_or(0)
    }

    /// The same, where the kernel has it.
    pub(crate) fn known_field(&self, structure: &'static str, field: &'static str) -> Option<u64> {
        self.fields.get(&(structure, field)).copied()
    }

    /// The physical address of kernel memory, as the kernel's page tables of four levels place it.
    pub(crate) fn physical_of(&self, ram: &Ram, addr: u64) -> Option<u64> {
        const PRESENT: u64 = 1;
        const LARGE: u64 = 1 << 7;
        const FRAME: u64 = 0x000f_ffff_ffff_f000;
        let mut table = self.physical(self.symbol("init_top_pgt")?)?;
        for shift in [39, 30, 21, 12] {
            let entry = ram.load(table + (addr >> shift & 511) * 8, 8)? as u64;
            if entry & PRESENT == 0 {
                return None;
            }
            let within = (1 << shift) - 1;
            if shift == 12 || shift < 39 && entry & LARGE != 0 {
                return Some(entry & FRAME & !within | addr & within);
            }
            table = entry & FRAME;
        }
        None
    }

    /// The physical address of kernel memory: of its image, or of the map of all memory.
    pub(crate) fn physical(&self, addr: u64) -> Option<u64> {
        const IMAGE: core::ops::Range<u64> = 0xffff_ffff_8000_0000..0xffff_ffff_c000_0000;
        if IMAGE.contains(&addr) {
            return Some(addr.wrapping_sub(self.image));
        }
        addr.checked_sub(self.direct).filter(|&addr| addr < 1 << 46)
    }

    /// A word of kernel memory.
    pub(crate) fn read_u64(&self, ram: &Ram, addr: u64) -> Option<u64> {
        Some(ram.load(self.physical(addr)?, 8)? as u64)
    }

    /// Half a word of it.
    pub(crate) fn read_u32(&self, ram: &Ram, addr: u64) -> Option<u32> {
        Some(ram.load(self.physical(addr)?, 4)? as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of a small kernel, in the order of 6.1; `sequence` bytes a symbol between markers and tokens.
    fn tables(names: &[(&str, i32)], base: u64, sequence: usize) -> Vec<u8> {
        let mut all: Vec<(String, i32)> =
            names.iter().map(|&(name, offset)| (format!("T{name}"), offset)).collect();
        while all.len() < 600 {
            all.push((format!("tfiller{}", all.len()), -1));
        }
        let mut bytes = vec![0xcc; 64];
        all.iter().for_each(|(_, offset)| bytes.extend(offset.to_le_bytes()));
        bytes.resize(up(bytes.len(), 8), 0);
        bytes.extend(base.to_le_bytes());
        bytes.extend((all.len() as u64).to_le_bytes());
        let start = bytes.len();
        let mut markers = Vec::new();
        for (number, (name, _)) in all.iter().enumerate() {
            if number % 256 == 0 {
                markers.push((bytes.len() - start) as u32);
            }
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
        }
        bytes.resize(up(bytes.len(), 8), 0);
        markers.iter().for_each(|marker| bytes.extend(marker.to_le_bytes()));
        bytes.resize(up(bytes.len(), 8), 0);
        bytes.extend((0..all.len() * sequence).map(|number| (number / 3) as u8));
        bytes.resize(up(bytes.len(), 8), 0);
        let tokens = bytes.len();
        let mut offsets = Vec::new();
        for token in 0..256u32 {
            offsets.push((bytes.len() - tokens) as u16);
            match u8::try_from(token).ok().filter(|byte| byte.is_ascii_graphic()) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend(format!("<{token}>").as_bytes()),
            }
            bytes.push(0);
        }
        bytes.resize(up(bytes.len(), 8), 0);
        offsets.iter().for_each(|offset| bytes.extend(offset.to_le_bytes()));
        bytes.resize(bytes.len() + 4096, 0xdd);
        bytes
    }

    #[test]
    fn symbols_are_found_in_the_tables() {
        let base = 0xffff_ffff_8100_0000;
        for sequence in [0, 3] {
            let names = [("current_task", 0x1fbc0), ("do_exit", -0x101), ("linux_banner", -1)];
            let bytes = tables(&names, base, sequence);
            let digits = occurrences(&bytes, DIGITS).next().unwrap();
            let (start, index) = tokens(&bytes, digits).unwrap();
            let found = symbols(&bytes, start, index).unwrap();
            assert_eq!(found["current_task"], 0x1fbc0);
            assert_eq!(found["do_exit"], base + 0x100);
            assert_eq!(found["linux_banner"], base);
            assert_eq!(found.len(), 600);
        }
    }

    #[test]
    fn damaged_tables_are_refused() {
        let bytes = tables(&[("a", -1)], 0xffff_ffff_8100_0000, 0);
        let digits = occurrences(&bytes, DIGITS).next().unwrap();
        let (start, index) = tokens(&bytes, digits).unwrap();
        for at in (0..start).step_by(7) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x55;
            let _ = symbols(&bytes, start, index);
        }
        assert_eq!(tokens(&bytes[..digits + 20], digits), None);
    }

    #[test]
    fn fields_are_found_in_a_description_of_types() {
        let strings = b"\0task_struct\0pid\0tgid\0int\0";
        let mut types = Vec::new();
        let mut put = |words: &[u32]| words.iter().for_each(|word| types.extend(word.to_le_bytes()));
        put(&[22, 1 << 24, 4, 32]);
        put(&[1, 4 << 24 | 2, 100, 13, 1, 64, 17, 1, 96]);
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(types);
        bytes.extend(strings);
        let found = btf_fields(&bytes, &[("task_struct", "pid"), ("task_struct", "tgid")]).unwrap();
        assert_eq!(found[&("task_struct", "pid")], 8);
        assert_eq!(found[&("task_struct", "tgid")], 12);
        assert_eq!(btf_fields(&bytes[..30], &[("task_struct", "pid")]), None);
    }
}
