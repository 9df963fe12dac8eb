//! From the loader's call to the program's first instruction: connect, take over, follow what is mapped.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicU64, Ordering};

use buffers::{CONFIG_BYTES, Config, MAX_NAME_BYTES, POOL_BYTES, Pool, Record};
use memref::{RegionChange, RegionKind, VirtAddr};
use tracee::maps::Mapping;
use tracee::{maps, sys, tls};

use crate::memory::{self, Range};
use crate::state::{PROCESS, Settings, Thread};
use crate::{attach, breakpoint, code_views, image, rseq, signals, translate, watchpoints};

const CHANNEL: &[u8] = b"MEMTAP_CHANNEL=";
/// What the kernel calls the recorder's shared memory.
const POOL_NAME: &[u8] = b"/memfd:memtap";
const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Connects to the recorder, where there is one, and takes the program over: the library's constructor.
///
/// # Safety
/// Called by the loader, once, with the program's arguments, while there is one thread.
pub unsafe extern "C" fn construct(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) {
    // SAFETY: the loader's arguments.
    let Some(Own { channel, channel_len, image, behind }) = (unsafe { take_own(envp) }) else { return };
    let Some((pool, config)) = connect(channel.get(..channel_len).unwrap_or(&[])) else {
        sys::complain(b"memtap: no recorder answers; the program runs untraced\n");
        return;
    };
    let control = pool.control();
    if !control.is_valid() {
        sys::complain(b"memtap: the recorder is of another version; the program runs untraced\n");
        return;
    }
    let Some(process) = control.next_process() else { return };
    let mut settings = Settings::new(&config, channel, channel_len);
    rseq::find();
    rseq::forget();
    // SAFETY: the loader's arguments, and what stands behind them.
    if !image.is_null() && !unsafe { image::load(&mut settings, image, argv, envp, behind) } {
        sys::complain(b"memtap: the static program can't be mapped here; run it without memtap\n");
        sys::exit_group(127);
    }
    // SAFETY: the loader's arguments.
    unsafe { note_arguments(argc, argv) };
    find_library(&mut settings);
    // SAFETY: one thread, and nobody has read them yet.
    unsafe { *PROCESS.settings.get() = settings };
    PROCESS.pool.store(pool.span().0 as usize, Ordering::Release);
    PROCESS.number.store(process, Ordering::Relaxed);
    PROCESS.pid.store(sys::getpid(), Ordering::Relaxed);
    if let Some(slot) = pool.process(process) {
        slot.enter(sys::getpid(), None, sys::realtime_ns());
    }
    if !PROCESS.ranges.lock().prepare() {
        sys::complain(
            b"memtap: no address space for the page table (ulimit -v?); the program runs untraced\n",
        );
        return;
    }
    // SAFETY: prepared here and entered at once.
    let Some(thread) = Thread::prepare().and_then(|thread| unsafe { Thread::enter(thread) }) else {
        sys::complain(b"memtap: no memory for the tracer; the program runs untraced\n");
        return;
    };
    if config.translate && !(translate::prepare(thread) && attach::make_stack()) {
        sys::complain(b"memtap: no memory for translated code; the program runs untraced\n");
        return;
    }
    if config.translate {
        translate::find_functions(true);
    }
    thread.install_handler_stack();
    signals::take_over();
    tell_program(thread);
    follow_mappings(thread, None);
    watchpoints::load(&config.watchpoints);
    translate::begin_locals(thread);
    if !Thread::watch_system_calls(true) {
        sys::complain(
            b"memtap: this kernel has no system call user dispatch (Linux 5.11); the program runs untraced\n",
        );
        return;
    }
    PROCESS.ready.store(true, Ordering::Release);
    attach::note_recorder(control.recorder().unwrap_or(0));
    breakpoint::plant(&config.breakpoints);
    thread.settled = true;
}

/// Finds where this library is, and its path.
pub(crate) fn find_library(settings: &mut Settings) {
    let here = construct as *const () as u64;
    maps::each(|mapping| {
        if (mapping.start..mapping.end).contains(&here) {
            PROCESS.text[0].store(mapping.start, Ordering::Relaxed);
            PROCESS.text[1].store(mapping.end, Ordering::Relaxed);
            if let Some(place) = settings.library.get_mut(..mapping.name.len()) {
                place.copy_from_slice(mapping.name);
                settings.library_len = mapping.name.len();
            }
        }
    });
}

/// What the recorder tells by variables.
struct Own {
    /// Its socket's name.
    channel: [u8; 64],
    channel_len: usize,
    /// The static executable in whose place this program was started; null: none.
    image: *const c_char,
    /// Behind the null of the list as the kernel made it.
    behind: *mut u64,
}

/// Finds the recorder's name among the variables, and takes what is ours out of them: the program shall not see it.
unsafe fn take_own(envp: *mut *mut c_char) -> Option<Own> {
    let mut name = [0; 64];
    let mut len = None;
    let mut image = core::ptr::null();
    let mut to = envp;
    let mut from = envp;
    // SAFETY: the list ends with a null, its strings with a zero; what is moved stays inside the list.
    unsafe {
        while !(*from).is_null() {
            let mut variable = *from;
            from = from.add(1);
            if let Some(value) = value_of(variable, CHANNEL) {
                let mut index = 0;
                while let Some(place) = name.get_mut(index).filter(|_| *value.add(index) != 0) {
                    *place = *value.add(index) as u8;
                    index += 1;
                }
                len = Some(index);
                continue;
            }
            if let Some(value) = value_of(variable, image::VARIABLE) {
                image = value.cast_const();
                continue;
            }
            if let Some(value) = value_of(variable, PRELOAD) {
                // Our library is the first of the list; what the user had follows behind a colon.
                let mut rest = value;
                while *rest != 0 && *rest != b':' as c_char {
                    rest = rest.add(1);
                }
                if *rest == 0 {
                    continue;
                }
                // The name moves up to the rest of its value.
                let start = rest.add(1).sub(PRELOAD.len());
                core::ptr::copy(variable, start, PRELOAD.len());
                variable = start;
            }
            *to = variable;
            to = to.add(1);
        }
        if len.is_some() {
            *to = core::ptr::null_mut();
        }
    }
    // The null is the last that was read.
    let behind = from.wrapping_add(1).cast();
    len.map(|len| Own { channel: name, channel_len: len, image, behind })
}

unsafe fn value_of(variable: *mut c_char, name: &[u8]) -> Option<*mut c_char> {
    for (index, byte) in name.iter().enumerate() {
        // SAFETY: reads no further than the first difference.
        if unsafe { *variable.add(index) } as u8 != *byte {
            return None;
        }
    }
    Some(variable.wrapping_add(name.len()))
}

/// Connects to the recorder; gets the pool and the settings.
pub(crate) fn connect(channel: &[u8]) -> Option<(Pool, Config)> {
    let call = |number: libc::c_long, args: [usize; 6]| {
        // SAFETY: each call below gets pointers to locals of the right size.
        unsafe { sys::syscall(number as usize, args) }
    };
    let socket_type = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as usize;
    let socket = call(libc::SYS_socket, [libc::AF_UNIX as usize, socket_type, 0, 0, 0, 0]);
    if sys::failed(socket) {
        return None;
    }
    let socket = sys::Fd(socket as i32);
    // sockaddr_un of an abstract name: family, a zero byte, the name.
    let mut address = [0u8; 110];
    address[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    address.get_mut(3..3 + channel.len())?.copy_from_slice(channel);
    let connected =
        call(libc::SYS_connect, [socket.0 as usize, address.as_ptr() as usize, 3 + channel.len(), 0, 0, 0]);
    if sys::failed(connected) {
        return None;
    }
    let mut bytes = [0u8; CONFIG_BYTES];
    let vector = [bytes.as_mut_ptr() as usize, bytes.len()];
    // One descriptor: cmsghdr (length, level, type) and the number, padded.
    let mut control = [0u64; 4];
    let mut header = [0usize; 7];
    header[2] = vector.as_ptr() as usize;
    header[3] = 1;
    header[4] = control.as_mut_ptr() as usize;
    header[5] = size_of_val(&control);
    let cloexec = libc::MSG_CMSG_CLOEXEC as usize;
    let received =
        call(libc::SYS_recvmsg, [socket.0 as usize, header.as_mut_ptr() as usize, cloexec, 0, 0, 0]);
    if received != CONFIG_BYTES as isize || control[0] < 20 {
        return None;
    }
    let memory = sys::Fd(control[2] as i32);
    let config = Config::decode(&bytes)?;
    let rw = sys::PROT_READ | sys::PROT_WRITE;
    // SAFETY: a new mapping replaces nothing.
    let base = unsafe { sys::mmap(0, POOL_BYTES as u64, rw, sys::MAP_SHARED, memory.0, 0) };
    if sys::failed(base) {
        return None;
    }
    // SAFETY: the recorder's memory has that size, and it stays mapped.
    Some((unsafe { Pool::new(base as *mut u8) }, config))
}

/// Where the command line is, and its bytes: written once, by the constructor. A program may change it later.
static ARGUMENTS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// # Safety
/// The arguments as the kernel laid them out: one string behind the other.
unsafe fn note_arguments(argc: c_int, argv: *mut *mut c_char) {
    let Some(last) = usize::try_from(argc).ok().and_then(|count| count.checked_sub(1)) else { return };
    // SAFETY: the caller's promise.
    let (start, len) = unsafe {
        let (start, last) = (argv.read(), argv.add(last).read());
        (start as u64, last as u64 + CStr::from_ptr(last).count_bytes() as u64 + 1 - start as u64)
    };
    ARGUMENTS[0].store(start, Ordering::Relaxed);
    ARGUMENTS[1].store(len, Ordering::Relaxed);
}

/// Tells what the process runs. The recorder may ask the kernel too late: a program can be over in a millisecond.
pub(crate) fn tell_program(thread: &mut Thread) {
    let path = image::program();
    if !path.as_bytes().is_empty() {
        thread.emit(&Record::Program { name: path.as_bytes() });
    }
    let [addr, len] = [&ARGUMENTS[0], &ARGUMENTS[1]].map(|word| word.load(Ordering::Relaxed));
    if len > 0 {
        // SAFETY: on the initial stack, which stays mapped and is never protected.
        let bytes = unsafe { core::slice::from_raw_parts(addr as *const u8, len as usize) };
        for name in bytes.chunks(MAX_NAME_BYTES) {
            thread.emit(&Record::Arguments { addr: VirtAddr(name.as_ptr() as u64), name });
        }
    }
}

/// What of a module may be written, by its program headers.
#[derive(Clone, Copy, Default)]
struct Module {
    base: u64,
    /// Whether it is the loader or the tracer, which are left alone.
    own: bool,
    /// Initialised data, behind what becomes read-only: start and end.
    data: (u64, u64),
    /// Behind the end of the bss.
    bss_end: u64,
}

const PT_LOAD: u32 = 1;
const PT_GNU_RELRO: u32 = 0x6474_e552;

impl Module {
    /// Reads the headers of a module that is mapped at `base`.
    ///
    /// # Safety
    /// The first page of a module's file must be mapped there.
    unsafe fn read(base: u64, own: bool) -> Self {
        let mut module = Module { base, own, ..Default::default() };
        // SAFETY: the ELF header and the table of program headers are in the module's first page (or the linker put
        // them elsewhere, and then the magic or the offsets say so).
        unsafe {
            if *(base as *const u32) != u32::from_le_bytes(*b"\x7fELF") {
                return module;
            }
            let header = base as *const u8;
            let kind = header.add(16).cast::<u16>().read();
            let table = base + header.add(32).cast::<u64>().read();
            let (size, count) = (header.add(54).cast::<u16>().read(), header.add(56).cast::<u16>().read());
            if table > base + 4096 - 64 || table + u64::from(size) * u64::from(count) > base + 4096 {
                return module;
            }
            // ET_EXEC: addresses are absolute.
            let bias = if kind == 2 { 0 } else { base };
            let mut relro_end = 0;
            for index in 0..u64::from(count) {
                let entry = (table + index * u64::from(size)) as *const u64;
                let words = |word: usize| entry.add(word).read();
                let (kind, flags) = (words(0) as u32, (words(0) >> 32) as u32);
                let (start, file_bytes, bytes) = (bias.wrapping_add(words(2)), words(4), words(5));
                if kind == PT_LOAD && flags & 2 != 0 {
                    module.data = (start, start + file_bytes);
                    module.bss_end = start + bytes;
                } else if kind == PT_GNU_RELRO {
                    relro_end = (start + bytes) & !4095;
                }
            }
            module.data.0 = module.data.0.max(relro_end) & !4095;
        }
        module
    }

    /// What a writable page of the process is for; `None` where it is none of this module's.
    fn kind_of(&self, start: u64) -> Option<RegionKind> {
        if start < self.data.0 || start >= self.bss_end {
            return None;
        }
        Some(if start < self.data.1 { RegionKind::Data } else { RegionKind::Bss })
    }
}

const MAX_MODULES: usize = 512;
const MAX_FOLLOWED: usize = 16_384;

/// One stretch that was found, until the list is read to its end: following changes the list.
#[derive(Clone, Copy)]
struct Found {
    range: Range,
    offset: u64,
    name: (usize, usize),
}

/// Tells of all mappings, and gives those that are traced a second view. `threads` are the stack pointers and the bases of fs
/// of a process that runs already; `None`: the program has not begun.
pub(crate) fn follow_mappings(thread: &mut Thread, threads: Option<&[[u64; 2]]>) {
    const NAME_BYTES: usize = 1 << 20;
    let room = MAX_FOLLOWED * size_of::<Found>() + MAX_MODULES * size_of::<Module>() + NAME_BYTES;
    let Some(memory) = sys::map_anonymous(room as u64, sys::PROT_READ | sys::PROT_WRITE) else { return };
    // SAFETY: fresh zeroed memory, split into three parts; zeros are a valid `Module`, and `found` is written before it
    // is read.
    let (found, modules, names) = unsafe {
        let found = memory.cast::<core::mem::MaybeUninit<Found>>();
        let modules = memory.add(MAX_FOLLOWED * size_of::<Found>()).cast::<Module>();
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
        last_name: (0, 0),
        count: 0,
        fs: tls::fs_base(),
        threads,
    };
    maps::each(|mapping| scan.module(&mapping));
    maps::each(|mapping| scan.stretches(&mapping, found));
    if PROCESS.settings().translate {
        maps::each(|mapping| {
            if !sys::is_own(mapping.start, mapping.end) {
                code_views::note(&mapping);
            }
        });
    }
    let count = scan.count;
    for entry in found.iter().take(count) {
        // SAFETY: `stretches` wrote the first `count` entries.
        let entry = unsafe { entry.assume_init() };
        let name = scan.names.get(entry.name.0..entry.name.0 + entry.name.1).unwrap_or(&[]);
        if entry.range.traced && !PROCESS.settings().translate {
            memory::follow(thread, entry.range, true, entry.offset, name);
        } else {
            memory::tell(thread, RegionChange::Map, &entry.range, entry.offset, name);
        }
    }
    // SAFETY: nothing refers to it any more.
    unsafe { sys::munmap(memory as u64, room as u64) };
}

/// The mappings, sorted by what they are for.
struct Scan<'a> {
    modules: &'a mut [Module],
    module_count: usize,
    names: &'a mut [u8],
    names_len: usize,
    last_name: (usize, usize),
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
        let own = file.starts_with(b"ld-linux")
            || file.starts_with(b"ld-2")
            || file.starts_with(b"ld.so")
            || Some(mapping.name) == settings.library.get(..settings.library_len);
        if let Some(place) = self.modules.get_mut(self.module_count) {
            // SAFETY: the first page of a file that the loader mapped.
            *place = unsafe { Module::read(mapping.start, own) };
            self.module_count += 1;
        }
    }

    fn keep_name(&mut self, name: &[u8]) -> (usize, usize) {
        let (at, len) = self.last_name;
        if self.names.get(at..at + len) == Some(name) {
            return self.last_name;
        }
        let at = self.names_len;
        let Some(place) = self.names.get_mut(at..at + name.len()) else { return (0, 0) };
        place.copy_from_slice(name);
        self.names_len += name.len();
        self.last_name = (at, name.len());
        self.last_name
    }

    /// Cuts a mapping where its pages are for different things.
    fn stretches(&mut self, mapping: &Mapping<'_>, found: &mut [core::mem::MaybeUninit<Found>]) {
        let pool = mapping.name.starts_with(POOL_NAME);
        let name = self.keep_name(if pool { b"[memtap]" } else { mapping.name });
        let mut at = mapping.start;
        // Only a module's data is for several things; others can be as large as address space.
        let whole = !self
            .modules
            .iter()
            .take(self.module_count)
            .any(|module| module.data.0 < mapping.end && mapping.start < module.bss_end);
        while at < mapping.end {
            let kind = self.kind_of(mapping, at);
            let mut end = if whole { mapping.end } else { at + 4096 };
            while end < mapping.end && self.kind_of(mapping, end) == kind {
                end += 4096;
            }
            let (kind, own) = kind;
            let traced = PROCESS.settings().translate && kind != RegionKind::Tracer
                || !own
                    && mapping.prot & sys::PROT_WRITE != 0
                    && !mapping.shared
                    && matches!(kind, RegionKind::Data | RegionKind::Bss | RegionKind::Heap);
            let range = Range { start: at, end, prot: mapping.prot, kind, traced, shared: mapping.shared };
            if let Some(place) = found.get_mut(self.count) {
                place.write(Found { range, offset: mapping.offset + (at - mapping.start), name });
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
        if self.threads.is_some() && sys::is_own(mapping.start, mapping.end) {
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
            // What exists before the program runs is the loader's or ours.
            return (RegionKind::Tracer, true);
        }
        let module = self.modules.iter().take(self.module_count).any(|module| module.base == at);
        (if mapping.inode != 0 || module { RegionKind::Rodata } else { RegionKind::File }, false)
    }
}
