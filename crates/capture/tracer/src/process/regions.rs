//! What is mapped when recording begins: the data of modules, stacks, files.

use memref::{RegionChange, RegionKind};
use tracee::maps::{self, Mapping};
use tracee::{sys, tls};

use crate::memory::code_views;
use crate::memory::pages::{self, PAGE_BYTES};
use crate::memory::ranges::Range;
use crate::module_headers::{MappedHeaders, ModuleSpan};
use crate::protect::views;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

/// What the kernel calls the recorder's shared memory.
const POOL_NAME: &[u8] = b"/memfd:memtap";

/// What of a module may be written, by its program headers.
#[derive(Clone, Copy, Default)]
struct ModuleData {
    base: u64,
    /// Whether it is the tracer, or the loader whose code is not translated: they are left alone.
    own: bool,
    /// Initialised data, after what becomes read-only.
    data: ModuleSpan,
    /// The end of the bss.
    bss_end: u64,
}

impl ModuleData {
    /// Reads the headers of a module that is mapped at `base`.
    ///
    /// # Safety
    /// The first page of a module's file must be mapped there.
    unsafe fn read(base: u64, own: bool) -> Self {
        let mut module = ModuleData { base, own, ..Default::default() };
        // SAFETY: the caller's promise.
        let Some(headers) = (unsafe { MappedHeaders::at(base) }) else { return module };
        let mut relro_end = 0;
        for header in headers.iter() {
            let start = headers.start_of(&header);
            if header.kind == libc::PT_LOAD && header.is_writable() {
                module.data = ModuleSpan { start, end: start + header.file_bytes };
                module.bss_end = start + header.memory_bytes;
            } else if header.kind == libc::PT_GNU_RELRO {
                relro_end = pages::start_of_page(start + header.memory_bytes);
            }
        }
        module.data.start = pages::start_of_page(module.data.start.max(relro_end));
        module
    }

    /// What a writable page of the process is for; `None` where it is none of this module's.
    fn kind_of(&self, start: u64) -> Option<RegionKind> {
        if start < self.data.start || start >= self.bss_end {
            return None;
        }
        Some(if start < self.data.end { RegionKind::Data } else { RegionKind::Bss })
    }
}

const MAX_MODULES: usize = 512;
const MAX_FOLLOWED: usize = 16_384;

/// One stretch that was found, until the list is read to its end: following changes the list.
#[derive(Clone, Copy)]
struct FoundRegion {
    range: Range,
    offset: u64,
    name: KeptName,
}

/// A name among those that are kept: where it begins, and its length.
#[derive(Clone, Copy, Default)]
struct KeptName {
    at: usize,
    len: usize,
}

/// Tells of all mappings, and gives those that are traced a second view. `threads` are the stack pointers and the bases of fs
/// of a process that runs already; `None`: the program has not begun.
pub(crate) fn follow_mappings(thread: &mut TracedThread, threads: Option<&[[u64; 2]]>) {
    const NAME_BYTES: usize = 1 << 20;
    let room = MAX_FOLLOWED * size_of::<FoundRegion>() + MAX_MODULES * size_of::<ModuleData>() + NAME_BYTES;
    let Some(memory) = sys::map_anonymous(room as u64, sys::PROT_READ | sys::PROT_WRITE) else { return };
    // SAFETY: fresh zeroed memory, split into three parts; zeros are a valid `ModuleData`, and `found` is written before it
    // is read.
    let (found, modules, names) = unsafe {
        let found = memory.cast::<core::mem::MaybeUninit<FoundRegion>>();
        let modules = memory.add(MAX_FOLLOWED * size_of::<FoundRegion>()).cast::<ModuleData>();
        let names = modules.add(MAX_MODULES).cast::<u8>();
        (
            core::slice::from_raw_parts_mut(found, MAX_FOLLOWED),
            core::slice::from_raw_parts_mut(modules, MAX_MODULES),
            core::slice::from_raw_parts_mut(names, NAME_BYTES),
        )
    };
    let mut scan = Scan {
        modules,
        module_count: 0,
        names,
        names_len: 0,
        last_name: KeptName::default(),
        count: 0,
        fs: tls::fs_base(),
        threads,
    };
    maps::each(|mapping| scan.module(&mapping));
    let translates = PROCESS.settings().translate;
    maps::each(|mapping| {
        scan.stretches(&mapping, found);
        if translates && !sys::is_own(mapping.start, mapping.end) {
            code_views::note(&mapping);
        }
    });
    let count = scan.count;
    for entry in found.iter().take(count) {
        // SAFETY: `stretches` wrote the first `count` entries.
        let entry = unsafe { entry.assume_init() };
        let name = scan.names.get(entry.name.at..entry.name.at + entry.name.len).unwrap_or(&[]);
        if entry.range.traced && !PROCESS.settings().translate {
            views::follow(thread, entry.range, true, entry.offset, name);
        } else {
            views::tell(thread, RegionChange::Map, &entry.range, entry.offset, name);
        }
    }
    // SAFETY: nothing refers to it any more.
    unsafe { sys::munmap(memory as u64, room as u64) };
}

/// The mappings, sorted by what they are for.
struct Scan<'a> {
    modules: &'a mut [ModuleData],
    module_count: usize,
    names: &'a mut [u8],
    names_len: usize,
    last_name: KeptName,
    count: usize,
    fs: u64,
    threads: Option<&'a [[u64; 2]]>,
}

impl Scan<'_> {
    fn module(&mut self, mapping: &Mapping<'_>) {
        if mapping.offset != 0 || !mapping.name.starts_with(b"/") || mapping.prot & sys::PROT_READ == 0 {
            return;
        }
        let file = mapping.name.rsplit(|&byte| byte == b'/').next().unwrap_or(&[]);
        let settings = PROCESS.settings();
        let is_loader =
            file.starts_with(b"ld-linux") || file.starts_with(b"ld-2") || file.starts_with(b"ld.so");
        let own = is_loader && !settings.translate
            || Some(mapping.name) == settings.library.get(..settings.library_len);
        if let Some(place) = self.modules.get_mut(self.module_count) {
            // SAFETY: the first page of a file that the loader mapped.
            *place = unsafe { ModuleData::read(mapping.start, own) };
            self.module_count += 1;
        }
    }

    fn keep_name(&mut self, name: &[u8]) -> KeptName {
        let KeptName { at, len } = self.last_name;
        if self.names.get(at..at + len) == Some(name) {
            return self.last_name;
        }
        let at = self.names_len;
        let Some(place) = self.names.get_mut(at..at + name.len()) else { return KeptName::default() };
        place.copy_from_slice(name);
        self.names_len += name.len();
        self.last_name = KeptName { at, len: name.len() };
        self.last_name
    }

    /// Cuts a mapping where its pages are for different things.
    fn stretches(&mut self, mapping: &Mapping<'_>, found: &mut [core::mem::MaybeUninit<FoundRegion>]) {
        let pool = mapping.name.starts_with(POOL_NAME);
        let name = self.keep_name(if pool { b"[memtap]" } else { mapping.name });
        let mut at = mapping.start;
        // Only a module's data is for several things; others can be as large as address space.
        let whole = !self
            .modules
            .iter()
            .take(self.module_count)
            .any(|module| module.data.start < mapping.end && mapping.start < module.bss_end);
        while at < mapping.end {
            let kind = self.kind_of(mapping, at);
            let (_, limit) = sys::own_stretch(at, mapping.end);
            let mut end = if whole { limit } else { at + PAGE_BYTES };
            while end < limit && self.kind_of(mapping, end) == kind {
                end += PAGE_BYTES;
            }
            let (kind, own) = kind;
            let traced = PROCESS.settings().translate && kind != RegionKind::Tracer
                || !own
                    && mapping.prot & sys::PROT_WRITE != 0
                    && !mapping.shared
                    && matches!(kind, RegionKind::Data | RegionKind::Bss | RegionKind::Heap);
            let range = Range { start: at, end, prot: mapping.prot, kind, traced, shared: mapping.shared };
            if let Some(place) = found.get_mut(self.count) {
                place.write(FoundRegion { range, offset: mapping.offset + (at - mapping.start), name });
                self.count += 1;
            }
            at = end;
        }
    }

    /// What a page is for, and whether it belongs to the loader or the tracer.
    fn kind_of(&self, mapping: &Mapping<'_>, at: u64) -> (RegionKind, bool) {
        let writable = mapping.prot & sys::PROT_WRITE != 0;
        if let Some(image) = PROCESS.settings().image()
            && mapping.name.starts_with(b"/")
            && mapping.name != image
        {
            // Of the program that was started in its place.
            return (RegionKind::Tracer, true);
        }
        if self.threads.is_some() && sys::own_stretch(at, mapping.end).0 {
            return (RegionKind::Tracer, true);
        }
        if mapping.prot & sys::PROT_EXEC != 0 {
            let kernel = mapping.name == b"[vdso]" || mapping.name == b"[vsyscall]";
            return (if kernel { RegionKind::Kernel } else { RegionKind::Text }, false);
        }
        match mapping.name {
            name if name.starts_with(POOL_NAME) => return (RegionKind::Tracer, true),
            b"[heap]" => return (RegionKind::Heap, false),
            b"[stack]" => return (RegionKind::Stack, false),
            b"[vvar]" | b"[vdso]" | b"[vvar_vclock]" => return (RegionKind::Kernel, false),
            _ => {}
        }
        if writable {
            for module in self.modules.iter().take(self.module_count) {
                if let Some(kind) = module.kind_of(at) {
                    return (if module.own { RegionKind::Tracer } else { kind }, module.own);
                }
            }
        }
        if let Some(threads) = self.threads
            && (mapping.name.is_empty() || mapping.name.starts_with(b"[anon"))
        {
            let holds = |word: usize| {
                let is_in = |word: &u64| (mapping.start..mapping.end).contains(word);
                threads.iter().any(|thread| thread.get(word).is_some_and(is_in))
            };
            // A thread's control block lies at the end of its stack.
            let kind = match () {
                () if holds(0) => RegionKind::Stack,
                () if holds(1) => RegionKind::Tls,
                () => RegionKind::Anonymous,
            };
            return (kind, kind == RegionKind::Tls);
        }
        if (mapping.start..mapping.end).contains(&self.fs) {
            return (RegionKind::Tls, true);
        }
        if mapping.name.is_empty() || mapping.name.starts_with(b"[anon") {
            // What exists before the program runs and is not ours is an allocator's that was started before us, or the loader's.
            let is_ours = !PROCESS.settings().translate || sys::own_stretch(at, mapping.end).0;
            return (if is_ours { RegionKind::Tracer } else { RegionKind::Anonymous }, true);
        }
        let module = self.modules.iter().take(self.module_count).any(|module| module.base == at);
        (if mapping.inode != 0 || module { RegionKind::Rodata } else { RegionKind::File }, false)
    }
}
