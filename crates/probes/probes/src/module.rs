//! The loaded modules: which file an address belongs to, its symbols, and what its sections offer.
//!
//! Modules are remembered for ever, even after they are unloaded, because a profile names functions that are gone.
//! The table is read without a lock; files and symbols are read at start-up and in the epoch thread, never on a hit.
//!
//! A library that is unloaded and immediately loaded again has the same file at the same address, but
//! none of the patches. Each module therefore gets a [`STAMP`] in its memory, which disappears with it.

use object::{Object, ObjectSection, ObjectSymbol};
use patch::{CodeAddr, PAGE_BYTES};
use std::{
    ffi::CStr,
    os::unix::fs::MetadataExt,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering},
    },
};

/// A symbol of a function.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Offset from the module's load address.
    pub offset: usize,
    /// Length in bytes; 0 where the symbol table does not say.
    pub len_bytes: usize,
    /// The name as written there.
    pub name: String,
}

/// A section of a loaded module.
pub struct SiteSection {
    /// Its name.
    pub name: String,
    /// Where it is in memory.
    pub start: usize,
    /// Its length.
    pub len_bytes: usize,
}

/// A module.
pub struct Module {
    /// Its file.
    pub path: String,
    /// What is added to its addresses when it is loaded.
    pub bias: usize,
    /// First and last address of its mappings.
    pub start: usize,
    /// See `start`.
    pub end: usize,
    /// See [`Self::symbols`].
    symbols: OnceLock<Vec<Symbol>>,
    /// Those that hold probe sites.
    pub sections: Vec<SiteSection>,
    /// Names it expects others to define.
    pub imports_instrumentation: bool,
    /// Its name as the loader has it; empty for the program.
    loader_name: String,
    /// See [`file_identity`].
    file: Option<ModuleFile>,
    /// Whether this load of it bears the [`STAMP`]. Written by [`refresh`].
    is_stamped: AtomicBool,
    /// Whether it was unloaded. Written by [`refresh`].
    is_gone: AtomicBool,
}

impl Module {
    /// Its functions, by offset; read from the file when first asked for, since most modules are never asked.
    #[must_use]
    pub fn symbols(&self) -> &[Symbol] {
        self.symbols.get_or_init(|| {
            let Some(bytes) = Contents::map(&self.path) else { return Vec::new() };
            object::File::parse(bytes.get()).map(|file| all_functions(&file)).unwrap_or_default()
        })
    }

    /// Those that were read already.
    pub(crate) fn symbols_if_read(&self) -> &[Symbol] {
        self.symbols.get().map_or(&[], Vec::as_slice)
    }

    /// Whether it is glibc.
    pub(crate) fn is_c_library(&self) -> bool {
        self.path.contains("/libc.so.6")
    }

    /// Whether it is the program itself.
    #[must_use]
    pub fn is_program(&self) -> bool {
        self.loader_name.is_empty()
    }

    /// Whether it is one of the system's libraries.
    #[must_use]
    pub fn is_of_system(&self) -> bool {
        let places = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"];
        !self.is_program() && places.iter().any(|place| self.path.starts_with(place))
    }

    /// Whether the unwinder is linked into it: its calls cannot be seen from outside.
    #[must_use]
    pub fn has_unwinder(&self) -> bool {
        !self.path.contains("/libgcc_s.so")
            && self.symbols().iter().any(|s| s.name == "_Unwind_RaiseException")
    }
}

const CAPACITY: usize = 4096;
static MODULES: [AtomicPtr<Module>; CAPACITY] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CAPACITY];
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Held while modules are added.
static ADDING: Mutex<()> = Mutex::new(());

/// Where an address lies.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Index of the module; `u32::MAX`: none.
    pub module: u32,
    /// Its file.
    pub path: &'static str,
    /// Offset from its load address.
    pub offset: usize,
}

/// The module with this index.
#[must_use]
pub fn module(index: u32) -> Option<&'static Module> {
    let slot = MODULES.get(index as usize)?;
    // SAFETY: a non-null slot points to a leaked module.
    unsafe { slot.load(Ordering::Acquire).as_ref() }
}

/// The modules that are loaded.
pub(crate) fn all() -> impl Iterator<Item = &'static Module> {
    let known = (0..COUNT.load(Ordering::Acquire)).filter_map(module);
    known.filter(|module| !module.is_gone.load(Ordering::Acquire))
}

/// Where `addr` lies; where modules replaced each other the one that is there wins, else the latest.
#[must_use]
pub fn place(addr: CodeAddr) -> Place {
    let mut gone = None;
    for index in (0..COUNT.load(Ordering::Acquire)).rev() {
        if let Some(module) = module(index)
            && (module.start..module.end).contains(&addr.0)
        {
            let place = Place { module: index, path: &module.path, offset: addr.0.wrapping_sub(module.bias) };
            if !module.is_gone.load(Ordering::Acquire) {
                return place;
            }
            gone.get_or_insert(place);
        }
    }
    gone.unwrap_or(Place { module: u32::MAX, path: "?", offset: addr.0 })
}

/// The name of the function that covers `offset`.
#[must_use]
pub fn symbol(module_index: u32, offset: usize) -> Option<String> {
    let symbols = module(module_index)?.symbols();
    let at = symbols.partition_point(|s| s.offset <= offset).checked_sub(1)?;
    let symbol = &symbols[at];
    (symbol.len_bytes == 0 || offset < symbol.offset + symbol.len_bytes).then(|| symbol.name.clone())
}

/// A module in the loader's list.
struct Loaded {
    name: String,
    bias: usize,
    start: usize,
    end: usize,
    /// Whether its file begins at `start`.
    has_header: bool,
    /// A page that the loader makes read-only as the last step of relocation.
    relro: Option<usize>,
}

impl Loaded {
    fn is(&self, module: &Module) -> bool {
        (self.bias, self.start, self.end) == (module.bias, module.start, module.end)
            && self.name == module.loader_name
    }

    /// Whether the loader is done with it. The list has libraries that are still relocated: their sections hold no
    /// addresses yet.
    fn is_relocated(&self) -> bool {
        self.relro.and_then(patch::maps::find).is_none_or(|mapping| !mapping.writable)
    }

    /// The word of [`STAMP`]; `None` for what cannot be unloaded.
    fn stamp_word(&self) -> Option<*const u64> {
        let at = self.start as *const u64;
        // SAFETY: the first bytes of a module, which the loader's lock keeps loaded while this is used.
        let is_elf = || unsafe { at.read() } as u32 == u32::from_le_bytes(*b"\x7fELF");
        (self.has_header && self.name.starts_with('/') && is_elf()).then(|| at.wrapping_add(1))
    }

    /// Whether it is the load of `module` that was seen before, as far as that can be told.
    fn is_still(&self, module: &Module) -> bool {
        // SAFETY: `stamp_word` gives a word inside the mapped ELF header.
        let is_stamped =
            || self.stamp_word().is_some_and(|word| unsafe { word.read_volatile() } & !ABI == STAMP);
        self.is(module) && (!module.is_stamped.load(Ordering::Relaxed) || is_stamped())
    }

    /// `false` where there is no room for the stamp, or the kernel refuses.
    fn stamp(&self) -> bool {
        self.stamp_word().is_some_and(|word| {
            // SAFETY: `stamp_word` gives a word inside the mapped ELF header.
            let abi = unsafe { word.read_volatile() } & ABI;
            patch::pages::write_word(word as usize, STAMP | abi)
        })
    }
}

/// What is written to the padding of a module's ELF header in memory (bytes 9 to 15, which nothing reads), to know this
/// load of it again.
const STAMP: u64 = u64::from_le_bytes(*b"\0memtap\x01");
/// The byte before the padding, which stays.
const ABI: u64 = 0xff;

fn loaded() -> Vec<Loaded> {
    extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut libc::c_void) -> i32 {
        // SAFETY: the loader passes a valid record and our own pointer.
        let (info, found) = unsafe { (&*info, &mut *data.cast::<Vec<Loaded>>()) };
        // SAFETY: the loader's array of dlpi_phnum headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let segments = || headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
        let ends = segments().map(|h| (h.p_vaddr as usize, (h.p_vaddr + h.p_memsz) as usize));
        let Some((start, end)) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return 0 };
        // SAFETY: a NUL-terminated name of the loader's.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy().into_owned();
        let bias = info.dlpi_addr as usize;
        let page = |addr: u64| (bias + addr as usize) & !(PAGE_BYTES - 1);
        let relro = headers.iter().find(|h| h.p_type == libc::PT_GNU_RELRO);
        found.push(Loaded {
            name,
            bias,
            start: bias + start,
            end: bias + end,
            has_header: segments().any(|h| h.p_vaddr as usize == start && h.p_offset == 0),
            relro: relro
                .map(|h| (page(h.p_vaddr), page(h.p_vaddr + h.p_memsz)))
                .filter(|r| r.0 < r.1)
                .map(|r| r.0),
        });
        0
    }
    let mut found: Vec<Loaded> = Vec::new();
    // SAFETY: `visit` gets a pointer to `found`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// The loader's counts of loads and unloads: they change when modules came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    loads: u64,
    unloads: u64,
}

/// The loader's counts now.
#[must_use]
pub fn generation() -> Generation {
    with_loader_locked(|generation| generation)
}

/// Runs `f` while the loader can unload nothing, and no other thread's `dlopen` comes to its end: the loader's lock is
/// held during an iteration over the modules.
///
/// # Panics
/// If the loader has no module at all: the program itself is one.
pub fn with_loader_locked<R, F: FnOnce(Generation) -> R>(f: F) -> R {
    extern "C" fn visit<R, F: FnOnce(Generation) -> R>(
        info: *mut libc::dl_phdr_info,
        _: usize,
        data: *mut libc::c_void,
    ) -> i32 {
        // SAFETY: the loader's record, and the pointer of the call below.
        let (info, call) = unsafe { (&*info, &mut *data.cast::<(Option<F>, Option<R>)>()) };
        call.1 = call.0.take().map(|f| f(Generation { loads: info.dlpi_adds, unloads: info.dlpi_subs }));
        1
    }
    let mut call: (Option<F>, Option<R>) = (Some(f), None);
    // SAFETY: `visit` gets a pointer to `call`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit::<R, F>), (&raw mut call).cast()) };
    call.1.expect("the program is a module")
}

/// Runs `f` if the module is loaded as [`refresh`] last saw it, and keeps it loaded meanwhile.
pub fn while_loaded<R>(index: u32, f: impl FnOnce(&'static Module) -> R) -> Option<R> {
    let module = module(index)?;
    with_loader_locked(|_| {
        let is_there =
            !module.is_gone.load(Ordering::Acquire) && loaded().iter().any(|now| now.is_still(module));
        is_there.then(|| f(module))
    })
}

/// What a look at the loader's list found.
pub struct Look {
    /// The modules that are new, or loaded again.
    pub fresh: Vec<u32>,
    /// The loader's counts then; `None` if it was not done with all of them, so that another look is needed.
    pub generation: Option<Generation>,
}

/// Adds the modules that are new, and retires the sites of those that are gone.
pub fn refresh() -> Look {
    let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    with_loader_locked(|generation| {
        let now = loaded();
        for old in (0..COUNT.load(Ordering::Acquire)).filter_map(module) {
            if !old.is_gone.load(Ordering::Relaxed) && !now.iter().any(|now| now.is_still(old)) {
                old.is_gone.store(true, Ordering::Release);
                patch::table::retire_range(old.start, old.end);
                patch::pages::forget(old.start, old.end);
            }
        }
        let mut look = Look { fresh: Vec::new(), generation: Some(generation) };
        for (position, now) in now.into_iter().enumerate() {
            let known = || (0..COUNT.load(Ordering::Acquire)).filter_map(|i| Some((i, module(i)?)));
            if known().any(|(_, m)| !m.is_gone.load(Ordering::Relaxed) && now.is(m)) {
                continue;
            }
            if !now.is_relocated() {
                look.generation = None;
                continue;
            }
            let is_stamped = now.stamp();
            let path = if position == 0 && now.name.is_empty() {
                std::fs::read_link("/proc/self/exe")
                    .map_or_else(|_| String::new(), |p| p.to_string_lossy().into_owned())
            } else {
                now.name.clone()
            };
            let file = file_identity(&path);
            if let Some((index, back)) = known().find(|(_, m)| now.is(m) && m.file == file && file.is_some())
            {
                back.is_stamped.store(is_stamped, Ordering::Relaxed);
                back.is_gone.store(false, Ordering::Release);
                look.fresh.push(index);
                continue;
            }
            let module = Box::leak(Box::new(read(path, &now, file)));
            module.is_stamped.store(is_stamped, Ordering::Relaxed);
            let index = COUNT.load(Ordering::Acquire);
            if let Some(slot) = MODULES.get(index as usize) {
                slot.store(module, Ordering::Release);
                COUNT.store(index + 1, Ordering::Release);
                look.fresh.push(index);
            }
        }
        look
    })
}

/// What differs where another file has the same name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ModuleFile {
    device: u64,
    inode: u64,
    len_bytes: u64,
    changed_s: i64,
    changed_ns: i64,
}

fn file_identity(path: &str) -> Option<ModuleFile> {
    let of = std::fs::metadata(path).ok()?;
    Some(ModuleFile {
        device: of.dev(),
        inode: of.ino(),
        len_bytes: of.len(),
        changed_s: of.mtime(),
        changed_ns: of.mtime_nsec(),
    })
}

/// The sections that hold probe sites.
const SECTIONS: [&str; 3] = ["__patchable_function_entries", "xray_instr_map", "memtap_probes"];

fn read(path: String, now: &Loaded, file: Option<ModuleFile>) -> Module {
    let bias = now.bias;
    let mut module = Module {
        path,
        bias,
        start: now.start,
        end: now.end,
        symbols: OnceLock::new(),
        sections: Vec::new(),
        imports_instrumentation: false,
        loader_name: now.name.clone(),
        file,
        is_stamped: AtomicBool::new(false),
        is_gone: AtomicBool::new(false),
    };
    let Some(bytes) = Contents::map(&module.path) else { return module };
    let Ok(file) = object::File::parse(bytes.get()) else { return module };
    for section in file.sections() {
        if let Ok(name) = section.name()
            && SECTIONS.contains(&name)
            && section.address() != 0
        {
            module.sections.push(SiteSection {
                name: name.to_owned(),
                start: bias + section.address() as usize,
                len_bytes: section.size() as usize,
            });
        }
    }
    module.imports_instrumentation = file
        .dynamic_symbols()
        .any(|s| s.is_undefined() && s.name().is_ok_and(|name| name.starts_with("__cyg_profile_func_")));
    module
}

/// The contents of a file, mapped: only what is looked at is read.
struct Contents {
    start: *const u8,
    len_bytes: usize,
}

impl Contents {
    fn map(path: &str) -> Option<Self> {
        let file = std::fs::File::open(path).ok()?;
        let len_bytes = usize::try_from(file.metadata().ok()?.len()).ok().filter(|len| *len > 0)?;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0) };
        (start != libc::MAP_FAILED).then_some(Self { start: start.cast(), len_bytes })
    }

    fn get(&self) -> &[u8] {
        // SAFETY: mapped until this is dropped. The loader relies on the files of loaded modules staying as they are, too.
        unsafe { std::slice::from_raw_parts(self.start, self.len_bytes) }
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        // SAFETY: the mapping made above; no slice of it outlives this value.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.len_bytes) };
    }
}

/// The functions of a file, by offset: of its symbol tables and, where it is stripped, of its unwind table.
fn all_functions(file: &object::File<'_>) -> Vec<Symbol> {
    let mut symbols = functions(file);
    if file.symbols().next().is_none() {
        // What remains in the dynamic symbols are exports; the unwind table knows the rest.
        let known: Vec<usize> = symbols.iter().map(|s| s.offset).collect();
        symbols.extend(unwound(file).into_iter().filter(|s| known.binary_search(&s.offset).is_err()));
        symbols.sort_by_key(|s| s.offset);
    }
    symbols
}

/// The functions of a file's symbol tables, by offset, one name each.
pub fn functions(file: &object::File<'_>) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|s| {
            matches!(s.flags(), object::SymbolFlags::Elf { st_info, .. } if st_info & 15 == object::elf::STT_FUNC)
                && s.is_definition()
        })
        .filter_map(|s| {
            let name = s.name().ok()?.to_owned();
            Some(Symbol { offset: s.address() as usize, len_bytes: s.size() as usize, name })
        })
        .filter(|s| !s.name.is_empty())
        .collect();
    symbols.sort_by(|a, b| (a.offset, b.len_bytes, &a.name).cmp(&(b.offset, a.len_bytes, &b.name)));
    symbols.dedup_by_key(|s| s.offset);
    symbols
}

/// The functions that the unwind table describes, named by their offset: for stripped files. Only those in `.text`
/// whose return address lies on top of the stack at the first instruction, so that pieces of functions that were split
/// off, which are entered by jumps with any stack, are left out, and so is the start-up code.
fn unwound(file: &object::File<'_>) -> Vec<Symbol> {
    use gimli::{BaseAddresses, CfaRule, EhFrame, RunTimeEndian, UnwindContext, UnwindSection, X86_64};
    let (Some(section), Some(text)) = (file.section_by_name(".eh_frame"), file.section_by_name(".text"))
    else {
        return Vec::new();
    };
    let Ok(data) = section.data() else { return Vec::new() };
    let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text.address());
    let table = EhFrame::new(data, RunTimeEndian::Little);
    let inside = text.address()..text.address() + text.size();
    let mut context = UnwindContext::new();
    let mut entries = table.entries(&bases);
    let mut symbols = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let start = fde.initial_address();
        if !inside.contains(&start) {
            continue;
        }
        let Ok(row) = fde.unwind_info_for_address(&table, &bases, &mut context, start) else { continue };
        let at_top = matches!(row.cfa(), CfaRule::RegisterAndOffset { register, offset: 8 } if *register == X86_64::RSP);
        let returns = row.register(X86_64::RA) == gimli::RegisterRule::Offset(-8);
        if at_top && returns {
            let name = format!("function_{start:x}");
            symbols.push(Symbol { offset: start as usize, len_bytes: fde.len() as usize, name });
        }
    }
    symbols.sort_by_key(|s| s.offset);
    symbols.dedup_by_key(|s| s.offset);
    symbols
}
