//! One ELF file: its functions, data objects, lines and types.

use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use elf::LinkAddr;
use memref::VirtAddr;

use crate::{
    BuildId, CfaRule, Error, FilePlace, FoundLocal, LineFrame, LocalId, LocalVariable, SearchPath, Section,
    SectionKind, Segment, Symbol, SymbolKind, TypeLayout,
    dwarf::{self, DebugInfo, DebugType, TypeRef, TypedFunction},
    elf::{
        AsksUsableSize, ElfFacts, ElfSource, FunctionExtents, ReadExtents, ReadFacts, ReadSlots, section_at,
    },
};

/// A variable or constant of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataObject {
    /// Address; of a thread-local variable its offset in the template.
    pub address: LinkAddr,
    /// Bytes.
    pub bytes: u64,
    /// Its name, with the scopes it lies in: `counter`, `next::counter` (a static variable of function `next`).
    pub name: String,
    /// What the section it lies in is for.
    pub section: SectionKind,
}

/// Where a variable of the file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataPlace {
    /// The addresses around the one asked for that have the same answer.
    pub(crate) around: Range<LinkAddr>,
    /// The address that the variable begins at.
    pub(crate) variable: Option<LinkAddr>,
}

/// One ELF file.
#[derive(Debug)]
pub struct Module {
    serial: u32,
    mapped_name: Box<str>,
    /// The file name by which it was executed, where that is another one.
    called: Option<Box<str>>,
    path: PathBuf,
    facts: ElfFacts,
    /// The file that was read, if one was, and its separate debug file.
    file: Option<PathBuf>,
    separate: Option<PathBuf>,
    /// Where the debug information is.
    debug_source: Option<(ElfSource, PathBuf)>,
    debug: OnceLock<Option<DebugInfo>>,
    /// Its functions by the frame table, once they were asked for.
    extents: OnceLock<FunctionExtents>,
    asks_usable_size: OnceLock<bool>,
    /// The slots of its global offset table, once they were asked for.
    slots: OnceLock<HashMap<LinkAddr, String>>,
    /// Why there is no debug information though the file has some.
    problem: OnceLock<Arc<Error>>,
}

impl Module {
    /// Opens a file. Reads its headers and symbols (and those of its separate debug file), not its debug information.
    ///
    /// # Errors
    /// If it can't be read, is not an x86-64 ELF file, is damaged, or is another build than `expected`.
    pub fn open(path: &Path, expected: Option<&BuildId>, search: &SearchPath) -> Result<Self, Error> {
        Self::open_mapped(&path.to_string_lossy(), path, path, expected, search)
    }

    /// A file that is in memory already. It has no separate debug file.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_bytes(name: &str, bytes: Arc<[u8]>) -> Result<Self, Error> {
        let source = ElfSource::Memory(bytes);
        let mut facts = source.with(Path::new(name), ReadFacts { more: None })??;
        finish(&mut facts);
        let debug_source = facts.has_dwarf.then(|| (source, PathBuf::from(name)));
        Ok(Self::with_facts(name, Path::new(name), facts, debug_source))
    }

    pub(crate) fn open_mapped(
        name: &str,
        path: &Path,
        file: &Path,
        expected: Option<&BuildId>,
        search: &SearchPath,
    ) -> Result<Self, Error> {
        let source = ElfSource::Path(file.to_owned());
        let mut facts = source.with(file, ReadFacts { more: None })??;
        if let Some(expected) = expected.filter(|expected| facts.build_id.as_ref() != Some(expected)) {
            let found = facts.build_id.as_ref().map_or_else(|| "none".to_owned(), BuildId::to_string);
            return Err(Error::BuildIdMismatch { path: file.to_owned(), expected: expected.clone(), found });
        }
        let mut debug_source = facts.has_dwarf.then(|| (source, file.to_owned()));
        let mut taken = None;
        if (!facts.has_dwarf || !facts.has_symtab)
            && let Some(separate) = dwarf::separate_file(file, &facts, search)
            && let source = ElfSource::Path(separate.clone())
            && let Ok(Ok(more)) = source.with(&separate, ReadFacts { more: Some(&facts) })
        {
            taken = Some(separate.clone());
            if !facts.has_symtab {
                facts.symbols.append(&more.symbols);
            }
            if debug_source.is_none() && more.has_dwarf {
                debug_source = Some((source, separate));
            }
        }
        finish(&mut facts);
        let module = Self::with_facts(name, path, facts, debug_source);
        Ok(Self { file: Some(file.to_owned()), separate: taken, ..module })
    }

    /// A file of which nothing is known but its name.
    pub(crate) fn nameless(name: &str) -> Self {
        Self::with_facts(name, Path::new(name), ElfFacts::default(), None)
    }

    fn with_facts(
        name: &str,
        path: &Path,
        facts: ElfFacts,
        debug_source: Option<(ElfSource, PathBuf)>,
    ) -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        Self {
            // Relaxed: only distinct numbers are needed.
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            mapped_name: name.into(),
            called: None,
            path: path.to_owned(),
            facts,
            file: None,
            separate: None,
            debug_source,
            debug: OnceLock::new(),
            extents: OnceLock::new(),
            asks_usable_size: OnceLock::new(),
            slots: OnceLock::new(),
            problem: OnceLock::new(),
        }
    }

    /// The same, called by another file name.
    pub(crate) fn with_name(self, called: Option<&str>) -> Self {
        Self { called: called.map(Box::from), ..self }
    }

    /// A number that no other module of this program has.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Its name among the mappings.
    pub fn mapped_name(&self) -> &str {
        &self.mapped_name
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that it was read from, which may be a copy elsewhere; `None` where there is none.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Its separate debug file, where something was taken from one.
    pub fn separate_file(&self) -> Option<&Path> {
        self.separate.as_deref()
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        let own = || self.path.file_name().and_then(|name| name.to_str()).unwrap_or(&self.mapped_name);
        self.called.as_deref().unwrap_or_else(own)
    }

    /// Which build it is, if it says so.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.facts.build_id.as_ref()
    }

    /// Whether it is linked to fixed addresses (not position-independent).
    pub fn is_fixed(&self) -> bool {
        self.facts.fixed
    }

    /// Whether it or its separate debug file has debug information.
    pub fn has_debug_info(&self) -> bool {
        self.debug_source.is_some()
    }

    /// The stretches of the file that are mapped.
    pub fn segments(&self) -> &[Segment] {
        &self.facts.segments
    }

    /// Where the file has the bytes of an address, and how many from there on; `None` where it has none.
    pub fn file_place(&self, address: LinkAddr) -> Option<FilePlace> {
        self.segments().iter().find_map(|segment| segment.rest_at(address))
    }

    /// The sections that are mapped, in the order of addresses, thread-local ones last.
    pub fn sections(&self) -> &[Section] {
        &self.facts.sections
    }

    /// The section of an address.
    pub fn section_at(&self, address: LinkAddr) -> Option<&Section> {
        section_at(&self.facts.sections, address)
    }

    /// All that is mapped of it, in whole pages; from 0 to 0 if nothing is.
    pub fn extent(&self) -> Range<LinkAddr> {
        let page = VirtAddr::PAGE_BYTES;
        let segments = || self.segments().iter().filter(|segment| segment.bytes != 0);
        let low = segments().map(|s| s.address.0 & !(page - 1)).min().unwrap_or(0);
        let high = segments().map(|s| s.address.0.saturating_add(s.bytes)).max().unwrap_or(0);
        LinkAddr(low)..LinkAddr(high.checked_next_multiple_of(page).unwrap_or(high).max(low))
    }

    /// Bytes from where the file is mapped first to an address: a file that can be moved is linked to zero.
    pub fn mapped_offset(&self, address: LinkAddr) -> u64 {
        let first = if self.is_fixed() { self.extent().start } else { LinkAddr(0) };
        address.0.wrapping_sub(first.0)
    }

    /// All symbols, in the order of addresses.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.facts.symbols.iter()
    }

    /// The function or procedure linkage entry of an address.
    pub fn function_at(&self, address: LinkAddr) -> Option<Symbol<'_>> {
        self.facts.symbols.find(address).2.filter(|symbol| symbol.kind == SymbolKind::Function)
    }

    /// The first and last bytes of the function at an address: by its symbol, or else by the table that exceptions are unwound
    /// with, which files without symbols have, too. Reads that on the first call.
    pub fn function_extent(&self, address: LinkAddr) -> Option<Range<LinkAddr>> {
        let symbol = self.function_at(address).filter(|symbol| symbol.bytes > 0);
        if let Some(symbol) = symbol {
            return Some(symbol.address..symbol.address.saturating_offset(symbol.bytes));
        }
        let extents = self.extents.get_or_init(|| {
            let file = self.file.as_ref();
            let read = |file: &PathBuf| ElfSource::Path(file.clone()).with(file, ReadExtents).ok();
            file.and_then(read).unwrap_or_default()
        });
        extents.find(address)
    }

    /// Whether its code may ask for the size that an allocator really gave (`malloc_usable_size` and its like), and so use all of it.
    /// Looks at all symbols on the first call.
    pub fn asks_usable_size(&self) -> bool {
        *self.asks_usable_size.get_or_init(|| {
            let file = self.file.as_ref();
            let read = |file: &PathBuf| ElfSource::Path(file.clone()).with(file, AsksUsableSize).ok();
            // Of a file that is not there nothing is known.
            file.and_then(read).unwrap_or(true)
        })
    }

    /// The function whose address the loader puts into a slot of the global offset table, by its name in the file. Reads the
    /// relocations on the first call.
    pub fn slot_function(&self, slot: LinkAddr) -> Option<&str> {
        let slots = self.slots.get_or_init(|| {
            let file = self.file.as_ref();
            let read = |file: &PathBuf| ElfSource::Path(file.clone()).with(file, ReadSlots).ok();
            file.and_then(read).unwrap_or_default()
        });
        slots.get(&slot).map(String::as_str)
    }

    /// The functions at an address with their source lines, innermost inlined one first; empty without debug
    /// information. Parses it on the first call.
    pub fn frames(&self, address: LinkAddr) -> Vec<LineFrame> {
        self.debug().map(|debug| debug.frames(address)).unwrap_or_default()
    }

    /// The variable or constant that owns an address.
    pub fn data_at(&self, address: LinkAddr) -> Option<DataObject> {
        let symbol = self.data_symbol(address).2;
        let variable = self.debug().and_then(|debug| debug.variables().find(address).2);
        match (symbol, variable) {
            (Some(symbol), variable) => {
                let variable = variable.filter(|variable| variable.address == symbol.address);
                Some(object(&symbol, variable.map(|variable| variable.name.as_str())))
            }
            (None, Some(variable)) => Some(DataObject {
                address: variable.address,
                bytes: variable.bytes,
                name: variable.name.clone(),
                section: self.section_at(variable.address)?.kind,
            }),
            (None, None) => None,
        }
    }

    /// The same without the name.
    pub(crate) fn data_place(&self, address: LinkAddr) -> DataPlace {
        let (start, end, symbol) = self.data_symbol(address);
        let symbol = symbol.map(|symbol| symbol.address);
        let Some(debug) = self.debug() else {
            return DataPlace { around: start..end, variable: symbol };
        };
        let (from, to, variable) = debug.variables().find(address);
        let placed = || variable.map(|v| v.address).filter(|address| self.section_at(*address).is_some());
        DataPlace { around: start.max(from)..end.min(to), variable: symbol.or_else(placed) }
    }

    fn data_symbol(&self, address: LinkAddr) -> (LinkAddr, LinkAddr, Option<Symbol<'_>>) {
        let (start, end, symbol) = self.facts.symbols.find(address);
        (start, end, symbol.filter(|symbol| symbol.kind == SymbolKind::Data))
    }

    /// All variables and constants, in the order of addresses, without thread-local ones. Aliases come once.
    pub fn data_objects(&self) -> Vec<DataObject> {
        let mut starts: Vec<LinkAddr> = self
            .symbols()
            .filter(|symbol| symbol.kind == SymbolKind::Data)
            .map(|symbol| symbol.address)
            .collect();
        if let Some(debug) = self.debug() {
            starts.extend(debug.variables().iter().map(|variable| variable.address));
        }
        starts.sort_unstable();
        starts.dedup();
        starts
            .into_iter()
            .filter_map(|start| self.data_at(start).filter(|object| object.address == start))
            .collect()
    }

    /// All addresses that belong to variables and constants, in order, each range with the address that its variable begins at: what
    /// [`data_at`](Self::data_at) has a name for. A variable may have several ranges.
    pub fn data_ranges(&self) -> Vec<(Range<LinkAddr>, LinkAddr)> {
        let mut all: Vec<(Range<LinkAddr>, LinkAddr)> = Vec::new();
        let Range { start, end } = self.extent();
        let mut at = start;
        while at < end {
            let DataPlace { around, variable } = self.data_place(at);
            let after = around.end.min(end);
            if let Some(variable) = variable {
                match all.last_mut().filter(|(range, last)| *last == variable && range.end == at) {
                    Some((range, _)) => range.end = after,
                    None => all.push((at..after, variable)),
                }
            }
            if after <= at {
                break;
            }
            at = after;
        }
        all
    }

    /// All thread-local variables that have symbols; their addresses are offsets in the template, and the same in every thread.
    pub fn thread_locals(&self) -> Vec<DataObject> {
        let named = |symbol: &Symbol<'_>| {
            self.debug()
                .and_then(|debug| debug.variables().thread_local(symbol.address))
                .map(|v| v.name.as_str())
        };
        let mut all: Vec<DataObject> = self
            .symbols()
            .filter(|symbol| symbol.kind == SymbolKind::Tls)
            .map(|symbol| object(&symbol, named(&symbol)))
            .collect();
        all.dedup_by_key(|object| object.address);
        all
    }

    /// The type of the thread-local variable at an offset of the template, where debug information tells it.
    pub(crate) fn thread_local_type(&self, offset: LinkAddr) -> Option<Arc<TypeLayout>> {
        let debug = self.debug()?;
        debug.layout(debug.variables().thread_local(offset)?.type_ref?)
    }

    /// The local variables and parameters of the function that begins at `address`, by their place from the canonical frame
    /// address: the innermost first, each at its time ([`LocalVariable::lives_at`]). Nothing without debug information, and for
    /// what lives in registers.
    pub fn locals_at(&self, address: LinkAddr, offset: i64) -> Vec<FoundLocal> {
        self.debug().map(|debug| debug.locals_at(address, offset)).unwrap_or_default()
    }

    /// What tells the canonical frame address at an instruction, by call frame information.
    pub fn cfa_rule(&self, address: LinkAddr) -> Option<CfaRule> {
        self.debug()?.cfa_rule(address)
    }

    /// One of them.
    pub fn local(&self, address: LinkAddr, id: LocalId) -> Option<Arc<LocalVariable>> {
        self.debug()?.local(address, id)
    }

    /// The type of the variable that begins at an address, where debug information tells it.
    pub fn type_at(&self, address: LinkAddr) -> Option<Arc<TypeLayout>> {
        let debug = self.debug()?;
        let variable = debug.variables().find(address).2.filter(|variable| variable.address == address)?;
        debug.layout(variable.type_ref?)
    }

    /// What debug information tells of the values in the function that begins at an address.
    pub fn typed_function(&self, address: LinkAddr) -> Option<Arc<TypedFunction>> {
        self.debug()?.typed_function(address)
    }

    /// The variable with a type that owns an address: its type, and the bytes from its start.
    pub fn typed_data(&self, address: LinkAddr) -> Option<(DebugType, u64)> {
        let variable = self.debug()?.variables().find(address).2?;
        Some((DebugType(variable.type_ref?.0), address.checked_sub(variable.address)?))
    }

    /// What a pointer or reference points to; `None` for everything else.
    pub fn pointee(&self, type_: DebugType) -> Option<DebugType> {
        self.debug()?.pointee(type_)
    }

    /// What a value of a type points to that stands in a register: a pointer, or a structure that begins with one.
    pub fn held_pointee(&self, type_: DebugType) -> Option<DebugType> {
        self.debug()?.held_pointee(type_)
    }

    /// A complete type by its name with its namespaces.
    pub fn debug_type_named(&self, name: &str) -> Option<DebugType> {
        self.debug()?.type_at_name(name)
    }

    /// The innermost type at an offset of a type.
    pub fn part_of_type(&self, type_: DebugType, offset: u64) -> Option<DebugType> {
        self.debug()?.part(type_, offset)
    }

    /// What a type consists of.
    pub fn layout_of(&self, type_: DebugType) -> Option<Arc<TypeLayout>> {
        self.debug()?.layout(TypeRef(type_.0))
    }

    /// A type by its name (`struct tag`, a typedef, a class with its namespaces, a base type).
    pub fn type_named(&self, name: &str) -> Option<Arc<TypeLayout>> {
        self.debug()?.type_named(name)
    }

    /// Why the debug information that was asked for so far could not be read, or not all of it.
    pub fn debug_problem(&self) -> Option<&Arc<Error>> {
        let damage = || self.debug.get()?.as_ref()?.damage();
        self.problem.get().or_else(damage)
    }

    pub(crate) fn debug(&self) -> Option<&DebugInfo> {
        let load = || {
            let (source, path) = self.debug_source.as_ref()?;
            match DebugInfo::load(source, path) {
                Ok(debug) => Some(debug),
                Err(problem) => {
                    let _first = self.problem.set(Arc::new(problem));
                    None
                }
            }
        };
        self.debug.get_or_init(load).as_ref()
    }
}

fn finish(facts: &mut ElfFacts) {
    let sections = &facts.sections;
    facts
        .symbols
        .finish(|address| section_at(sections, address).map(|s| s.address.saturating_offset(s.bytes)));
}

/// Compilers number the static variables of C functions: `counter.0`. Debug information knows the function.
fn is_numbered(symbol: &Symbol<'_>) -> bool {
    symbol.local
        && symbol.raw_name.rsplit_once('.').is_some_and(|(stem, digits)| {
            !stem.is_empty() && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        })
}

fn object(symbol: &Symbol<'_>, from_debug_info: Option<&str>) -> DataObject {
    let name = match from_debug_info {
        Some(name) if is_numbered(symbol) => name.to_owned(),
        _ => symbol.name().into_owned(),
    };
    DataObject { address: symbol.address, bytes: symbol.bytes, name, section: symbol.section }
}
