//! The loaded modules: which file an address belongs to, its symbols, and what its sections offer.
//!
//! Modules are remembered for ever, also after they are unloaded: a profile names functions that are gone. The table is
//! read without a lock; reading files and symbols happens at start-up and in the epoch thread, never on a hit.

use object::{Object, ObjectSection, ObjectSymbol};
use patch::CodeAddr;
use std::{
    ffi::CStr,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicPtr, AtomicU32, Ordering},
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
    /// Address and length of the sections that hold probe sites, by name.
    pub sections: Vec<(String, usize, usize)>,
    /// Names it expects others to define.
    pub imports_instrumentation: bool,
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

/// Where `addr` lies; the latest module wins where one replaced another.
#[must_use]
pub fn place(addr: CodeAddr) -> Place {
    for index in (0..COUNT.load(Ordering::Acquire)).rev() {
        if let Some(module) = module(index)
            && (module.start..module.end).contains(&addr.0)
        {
            return Place { module: index, path: &module.path, offset: addr.0.wrapping_sub(module.bias) };
        }
    }
    Place { module: u32::MAX, path: "?", offset: addr.0 }
}

/// The name of the function that covers `offset`.
#[must_use]
pub fn symbol(module_index: u32, offset: usize) -> Option<String> {
    let symbols = module(module_index)?.symbols();
    let at = symbols.partition_point(|s| s.offset <= offset).checked_sub(1)?;
    let symbol = &symbols[at];
    (symbol.len_bytes == 0 || offset < symbol.offset + symbol.len_bytes).then(|| symbol.name.clone())
}

/// What the loader has mapped: file, bias, start, end.
type Loaded = (String, usize, usize, usize);

fn loaded() -> Vec<Loaded> {
    extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut libc::c_void) -> i32 {
        // SAFETY: the loader passes a valid record and our own pointer.
        let (info, found) = unsafe { (&*info, &mut *data.cast::<Vec<Loaded>>()) };
        // SAFETY: the loader's array of dlpi_phnum headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let segments = headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
        let ends = segments.map(|h| (h.p_vaddr as usize, (h.p_vaddr + h.p_memsz) as usize));
        let Some((start, end)) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return 0 };
        // SAFETY: a NUL-terminated name of the loader's.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy().into_owned();
        let bias = info.dlpi_addr as usize;
        found.push((name, bias, bias + start, bias + end));
        0
    }
    let mut found: Vec<Loaded> = Vec::new();
    // SAFETY: `visit` gets a pointer to `found`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// The loader's counts of loads and unloads: they change when modules came or went.
#[must_use]
pub fn generation() -> (u64, u64) {
    extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut libc::c_void) -> i32 {
        // SAFETY: the loader passes a valid record and our own pointer.
        unsafe { *data.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut counts = (0u64, 0u64);
    // SAFETY: `visit` gets a pointer to `counts`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut counts).cast()) };
    counts
}

/// Adds the modules that are new, and retires the sites of those that are gone. Returns the indices of the new ones.
pub fn refresh() -> Vec<u32> {
    let _adding = ADDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let now = loaded();
    let mut fresh = Vec::new();
    for index in 0..COUNT.load(Ordering::Acquire) {
        if let Some(old) = module(index)
            && !now.iter().any(|(_, bias, start, _)| (*bias, *start) == (old.bias, old.start))
        {
            patch::table::retire_range(old.start, old.end);
            patch::pages::forget(old.start, old.end);
        }
    }
    for (position, (name, bias, start, end)) in now.into_iter().enumerate() {
        let known = (0..COUNT.load(Ordering::Acquire))
            .filter_map(module)
            .any(|m| (m.bias, m.start, m.end) == (bias, start, end) && (position == 0 || m.path == name));
        if known {
            continue;
        }
        let path = if position == 0 && name.is_empty() {
            std::fs::read_link("/proc/self/exe").map_or(name, |p| p.to_string_lossy().into_owned())
        } else {
            name
        };
        let module = Box::leak(Box::new(read(path, bias, start, end)));
        let index = COUNT.load(Ordering::Acquire);
        if let Some(slot) = MODULES.get(index as usize) {
            slot.store(module, Ordering::Release);
            COUNT.store(index + 1, Ordering::Release);
            fresh.push(index);
        }
    }
    fresh
}

/// The sections that hold probe sites.
const SECTIONS: [&str; 3] = ["__patchable_function_entries", "xray_instr_map", "memtap_probes"];

fn read(path: String, bias: usize, start: usize, end: usize) -> Module {
    let mut module = Module {
        path,
        bias,
        start,
        end,
        symbols: OnceLock::new(),
        sections: Vec::new(),
        imports_instrumentation: false,
    };
    let Some(bytes) = Contents::map(&module.path) else { return module };
    let Ok(file) = object::File::parse(bytes.get()) else { return module };
    for section in file.sections() {
        if let Ok(name) = section.name()
            && SECTIONS.contains(&name)
            && section.address() != 0
        {
            module.sections.push((
                name.to_owned(),
                bias + section.address() as usize,
                section.size() as usize,
            ));
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
