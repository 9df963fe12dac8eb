//! Reads everything of one ELF file except its debug information.

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use elf::{ElfHeader, ElfRefusal, LinkAddr};
use object::{
    Endianness, Object, ObjectSection, ReadCache, ReadRef,
    elf::{
        ET_EXEC, PF_R, PF_W, PF_X, PT_GNU_RELRO, PT_LOAD, R_X86_64_GLOB_DAT, R_X86_64_IRELATIVE,
        R_X86_64_JUMP_SLOT, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_WRITE, SHN_UNDEF, SHT_DYNSYM, SHT_NOBITS,
        SHT_NOTE, SHT_RELA, SHT_SYMTAB, STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, STT_TLS,
    },
    read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader},
};

use super::{Section, SectionKind, Segment, SymbolKind, SymbolTable, plt, symbol::SymbolEntry};
use crate::{BuildId, Error};

/// Where the bytes of a file are.
#[derive(Clone, Debug)]
pub(crate) enum ElfSource {
    Path(PathBuf),
    Memory(Arc<[u8]>),
}

/// What the linker defines to mark where things begin and end: no variables.
const MARKERS: &[&str] = &[
    "__bss_start",
    "_edata",
    "edata",
    "_end",
    "end",
    "__data_start",
    "data_start",
    "__TMC_END__",
    "__DTOR_END__",
    "_fp_hw",
    "__init_array_start",
    "__init_array_end",
    "__fini_array_start",
    "__fini_array_end",
    "__GNU_EH_FRAME_HDR",
    "_GLOBAL_OFFSET_TABLE_",
    "_DYNAMIC",
    "__FRAME_END__",
    "__rela_iplt_start",
    "__rela_iplt_end",
    "__dso_handle",
    "__preinit_array_start",
    "__preinit_array_end",
    "__ehdr_start",
    "__executable_start",
    "_etext",
    "etext",
    "__etext",
];

/// What a file says of itself.
#[derive(Debug, Default)]
pub(crate) struct ElfFacts {
    pub(crate) build_id: Option<BuildId>,
    /// Linked to a fixed address.
    pub(crate) fixed: bool,
    pub(crate) segments: Vec<Segment>,
    pub(crate) sections: Vec<Section>,
    pub(crate) symbols: SymbolTable,
    /// It has a full symbol table.
    pub(crate) has_symtab: bool,
    /// It has `.debug_info`.
    pub(crate) has_dwarf: bool,
    /// `.gnu_debuglink`: a file name and its CRC-32.
    pub(crate) debug_link: Option<(String, u32)>,
}

/// A file opened for object: calls `with` with the parsed file, whatever holds its bytes.
pub(crate) trait WithElf {
    type Extract;
    fn call<'data, R: ReadRef<'data>>(
        self,
        path: &Path,
        elf: &ElfFile64<'data, Endianness, R>,
    ) -> Self::Extract;
}

impl ElfSource {
    /// Parses the headers and hands them on.
    pub(crate) fn with<W: WithElf>(&self, path: &Path, with: W) -> Result<W::Extract, Error> {
        match self {
            Self::Memory(bytes) => Ok(with.call(path, &parse(path, &**bytes)?)),
            Self::Path(file) => {
                let failed = |source| Error::Io { path: path.to_owned(), source };
                // A device or a pipe can't be mapped as a module, and opening it may wait.
                if !file.metadata().map_err(failed)?.is_file() {
                    return Err(Error::NotElf { path: path.to_owned() });
                }
                let cache = ReadCache::new(File::open(file).map_err(failed)?);
                let elf = parse(path, &cache)?;
                Ok(with.call(path, &elf))
            }
        }
    }
}

fn parse<'data, R: ReadRef<'data>>(path: &Path, data: R) -> Result<ElfFile64<'data, Endianness, R>, Error> {
    let path_of_it = || path.to_owned();
    match ElfHeader::parse(data.read_bytes_at(0, ElfHeader::BYTES as u64).unwrap_or_default()) {
        Ok(_) => {}
        Err(ElfRefusal::OtherProcessor(machine)) => {
            return Err(Error::OtherArchitecture { path: path_of_it(), machine });
        }
        Err(ElfRefusal::NotElf | ElfRefusal::Bits32) => return Err(Error::NotElf { path: path_of_it() }),
    }
    ElfFile64::<Endianness, R>::parse(data).map_err(|source| Error::Malformed {
        path: path_of_it(),
        what: "the ELF header",
        source,
    })
}

/// Reads the facts; of a separate debug file only the symbols are of use.
pub(crate) struct ReadFacts<'a> {
    /// A second file whose full symbol table is read too, and that knows the sections.
    pub(crate) more: Option<&'a ElfFacts>,
}

impl WithElf for ReadFacts<'_> {
    type Extract = Result<ElfFacts, Error>;

    fn call<'data, R: ReadRef<'data>>(
        self,
        path: &Path,
        elf: &ElfFile64<'data, Endianness, R>,
    ) -> Result<ElfFacts, Error> {
        let mut facts =
            ElfFacts { fixed: elf.elf_header().e_type(elf.endian()) == ET_EXEC, ..ElfFacts::default() };
        let relro = read_segments(elf, &mut facts);
        read_sections(elf, relro, &mut facts);
        let sections = self.more.map_or(facts.sections.as_slice(), |more| more.sections.as_slice()).to_vec();
        let malformed = |source| Error::Malformed { path: path.to_owned(), what: "its symbols", source };
        let mut slot_names = HashMap::new();
        facts.has_symtab = read_symbols(elf, SHT_SYMTAB, &sections, &mut facts.symbols).map_err(malformed)?;
        if self.more.is_none() {
            read_symbols(elf, SHT_DYNSYM, &sections, &mut facts.symbols).map_err(malformed)?;
            read_slots(elf, &mut slot_names);
            read_plt(elf, &slot_names, &mut facts.symbols);
        }
        Ok(facts)
    }
}

/// Reads the build id alone.
pub(crate) struct ReadBuildId;

impl WithElf for ReadBuildId {
    type Extract = Option<BuildId>;

    fn call<'data, R: ReadRef<'data>>(
        self,
        _path: &Path,
        elf: &ElfFile64<'data, Endianness, R>,
    ) -> Option<BuildId> {
        elf.sections()
            .filter(|section| section.elf_section_header().sh_type(elf.endian()) == SHT_NOTE)
            .find_map(|section| BuildId::new(elf::build_id(section.data().ok()?)?))
    }
}

/// Reads the slots of the global offset table.
pub(crate) struct ReadSlots;

impl WithElf for ReadSlots {
    type Extract = HashMap<LinkAddr, String>;

    fn call<'data, R: ReadRef<'data>>(
        self,
        _path: &Path,
        elf: &ElfFile64<'data, Endianness, R>,
    ) -> HashMap<LinkAddr, String> {
        let mut slots = HashMap::new();
        read_slots(elf, &mut slots);
        slots
    }
}

fn read_segments<'data, R: ReadRef<'data>>(
    elf: &ElfFile64<'data, Endianness, R>,
    facts: &mut ElfFacts,
) -> std::ops::Range<LinkAddr> {
    let endian = elf.endian();
    let mut relro = LinkAddr(0)..LinkAddr(0);
    for header in elf.elf_program_headers() {
        let (address, bytes) = (LinkAddr(header.p_vaddr(endian)), header.p_memsz(endian));
        match header.p_type(endian) {
            PT_LOAD => {
                let flags = header.p_flags(endian);
                let rights = [(PF_R, 1), (PF_W, 2), (PF_X, 4)];
                facts.segments.push(Segment {
                    file_offset: header.p_offset(endian),
                    file_bytes: header.p_filesz(endian),
                    address,
                    bytes,
                    rights: rights
                        .iter()
                        .filter(|(flag, _)| flags & flag != 0)
                        .fold(0, |all, (_, bit)| all | bit),
                });
            }
            PT_GNU_RELRO => relro = address..address.saturating_offset(bytes),
            _ => {}
        }
    }
    relro
}

fn read_sections<'data, R: ReadRef<'data>>(
    elf: &ElfFile64<'data, Endianness, R>,
    relro: std::ops::Range<LinkAddr>,
    facts: &mut ElfFacts,
) {
    let endian = elf.endian();
    for section in elf.sections() {
        let header = section.elf_section_header();
        let name = section.name().unwrap_or_default();
        if header.sh_type(endian) == SHT_NOTE && facts.build_id.is_none() {
            facts.build_id = section.data().ok().and_then(elf::build_id).and_then(BuildId::new);
        }
        // Where only the debug information was kept, the sections of the program have no bytes.
        facts.has_dwarf |= name == ".debug_info" && header.sh_type(endian) != SHT_NOBITS;
        let flags = header.sh_flags(endian);
        if flags & u64::from(SHF_ALLOC) == 0 {
            continue;
        }
        let has = |flag: u32| flags & u64::from(flag) != 0;
        let address = LinkAddr(header.sh_addr(endian));
        let kind = if has(SHF_TLS) {
            SectionKind::Tls
        } else if has(SHF_EXECINSTR) {
            SectionKind::Text
        } else if !has(SHF_WRITE) {
            SectionKind::Rodata
        } else if relro.contains(&address) {
            SectionKind::Relro
        } else if header.sh_type(endian) == SHT_NOBITS {
            SectionKind::Bss
        } else {
            SectionKind::Data
        };
        facts.sections.push(Section { name: name.into(), address, bytes: header.sh_size(endian), kind });
    }
    // The template of thread-local zeros has addresses that belong to what follows it.
    facts.sections.sort_by_key(|section| (section.kind == SectionKind::Tls, section.address));
    facts.debug_link = elf
        .gnu_debuglink()
        .ok()
        .flatten()
        .and_then(|(name, crc)| Some((String::from_utf8(name.to_vec()).ok()?, crc)));
}

/// The section that holds an address.
pub(crate) fn section_at(sections: &[Section], address: LinkAddr) -> Option<&Section> {
    let placed = sections.partition_point(|section| section.kind != SectionKind::Tls);
    let sections = sections.get(..placed)?;
    let after = sections.partition_point(|section| section.address <= address);
    // An empty section may begin where a full one does.
    let mut candidates = sections.get(..after)?.iter().rev().take(4);
    candidates.find(|section| address.checked_sub(section.address).is_some_and(|into| into < section.bytes))
}

fn read_symbols<'data, R: ReadRef<'data>>(
    elf: &ElfFile64<'data, Endianness, R>,
    table: u32,
    sections: &[Section],
    symbols: &mut SymbolTable,
) -> Result<bool, object::Error> {
    let endian = elf.endian();
    let data = elf.data();
    let headers = elf.elf_section_table();
    let Some((_, header)) = headers.enumerate().find(|(_, header)| header.sh_type(endian) == table) else {
        return Ok(false);
    };
    let entries = header.data(endian, data)?;
    let names = headers.section(header.link(endian))?.data(endian, data)?;
    for entry in entries.chunks_exact(24) {
        let word = |at: usize| {
            u64::from_le_bytes(entry.get(at..at + 8).and_then(|b| b.try_into().ok()).unwrap_or_default())
        };
        let (name, info, shndx) = (word(0) as u32, (word(0) >> 32) as u8, (word(0) >> 48) as u16);
        let (address, bytes) = (LinkAddr(word(8)), word(16));
        let kind = info & 15;
        if shndx == SHN_UNDEF || !matches!(kind, STT_NOTYPE | STT_FUNC | STT_OBJECT | STT_TLS | STT_GNU_IFUNC)
        {
            continue;
        }
        let Some(name) = names.get(name as usize..).and_then(|rest| rest.split(|&b| b == 0).next()) else {
            continue;
        };
        let Ok(name) = std::str::from_utf8(name) else { continue };
        let name = name.split('@').next().unwrap_or(name);
        if name.is_empty() || kind == STT_NOTYPE && MARKERS.contains(&name) {
            continue;
        }
        let (kind, section) = if kind == STT_TLS {
            (SymbolKind::Tls, SectionKind::Tls)
        } else {
            // Absolute symbols and those of sections that aren't mapped have no address.
            let Some(section) = section_at(sections, address) else { continue };
            let code = section.kind == SectionKind::Text;
            (if code { SymbolKind::Function } else { SymbolKind::Data }, section.kind)
        };
        let entry = SymbolEntry {
            address,
            bytes,
            name_start: 0,
            name_len: 0,
            kind,
            section,
            local: info >> 4 == STB_LOCAL,
            unsized_: bytes == 0,
        };
        symbols.push(name, entry);
    }
    Ok(true)
}

/// The slots of the global offset table that hold the address of a function.
fn read_slots<'data, R: ReadRef<'data>>(
    elf: &ElfFile64<'data, Endianness, R>,
    slots: &mut HashMap<LinkAddr, String>,
) {
    let endian = elf.endian();
    let data = elf.data();
    let headers = elf.elf_section_table();
    for header in headers.iter().filter(|header| header.sh_type(endian) == SHT_RELA) {
        let Ok(relocations) = header.data(endian, data) else { continue };
        let linked = headers.section(header.link(endian)).ok();
        let symbols = linked.and_then(|table| table.data(endian, data).ok()).unwrap_or_default();
        let strings = linked.and_then(|table| headers.section(table.link(endian)).ok());
        let strings = strings.and_then(|table| table.data(endian, data).ok()).unwrap_or_default();
        for entry in relocations.chunks_exact(24) {
            let word = |at: usize| {
                u64::from_le_bytes(entry.get(at..at + 8).and_then(|b| b.try_into().ok()).unwrap_or_default())
            };
            let (slot, kind, symbol) = (LinkAddr(word(0)), word(8) as u32, (word(8) >> 32) as usize);
            if kind == R_X86_64_IRELATIVE || !matches!(kind, R_X86_64_JUMP_SLOT | R_X86_64_GLOB_DAT) {
                continue;
            }
            let name_at = symbol.checked_mul(24).and_then(|at| symbols.get(at..at.checked_add(4)?));
            let Some(name_at) = name_at.and_then(|b| b.try_into().ok()).map(u32::from_le_bytes) else {
                continue;
            };
            let name = strings.get(name_at as usize..).and_then(|rest| rest.split(|&b| b == 0).next());
            if let Some(name) =
                name.and_then(|name| std::str::from_utf8(name).ok()).filter(|name| !name.is_empty())
            {
                slots.insert(slot, name.to_owned());
            }
        }
    }
}

fn read_plt<'data, R: ReadRef<'data>>(
    elf: &ElfFile64<'data, Endianness, R>,
    slots: &HashMap<LinkAddr, String>,
    symbols: &mut SymbolTable,
) {
    let endian = elf.endian();
    for section in elf.sections() {
        if !section.name().is_ok_and(|name| matches!(name, ".plt" | ".plt.sec" | ".plt.got" | ".plt.bnd")) {
            continue;
        }
        let Ok(code) = section.data() else { continue };
        let entry_bytes = section.elf_section_header().sh_entsize(endian);
        let entry_bytes = if matches!(entry_bytes, 8 | 16 | 32) { entry_bytes } else { 16 };
        for (address, name) in
            plt::names(&plt::entries(code, LinkAddr(section.address()), entry_bytes), slots)
        {
            let entry = SymbolEntry {
                address,
                bytes: entry_bytes,
                name_start: 0,
                name_len: 0,
                kind: SymbolKind::Function,
                section: SectionKind::Text,
                local: true,
                unsized_: false,
            };
            symbols.push(&name, entry);
        }
    }
}
