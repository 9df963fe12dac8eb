//! The replaced functions as translated code sees them: where they are, and what a call of one means.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use code_cache::Mode;
use memref::BlockKind;

use crate::calls::allocators::{self, AllocatorCall};
use crate::calls::real::{self, LoadedProgram};
use crate::calls::{allocations, entry_points};
use crate::state::process::PROCESS;
use crate::translate::own_allocators::{self, Function};
use crate::translate::sync::{self, Action};
use crate::watch::watchpoints;

/// What a call of one means.
#[derive(Clone, Copy)]
pub(crate) enum EntryKind {
    /// Nothing: the real one runs.
    Plain,
    /// It is an event.
    Allocator(AllocatorCall),
    /// An allocator's function that does not return ends here.
    Raises,
    /// It leaves a note for the event that it leads to.
    Note(u8),
    /// It orders threads.
    Sync(Action),
    /// Recording on, off, and a named point.
    Control(u8),
    /// Where there are watchpoints: it reads or writes a block, as one access; this function does it. Whether it writes.
    Block(unsafe extern "C" fn(), bool),
    /// The same, where it may wait: the real one runs, and what it did is told when it returns.
    Stream(BlockKind),
}

#[derive(Clone, Copy)]
pub(crate) struct EntryPoint {
    pub(crate) addr: u64,
    /// Zero where no library that was there at start-up has it, see [`real_of`].
    pub(crate) real: u64,
    /// Its place in the table.
    number: usize,
    pub(crate) kind: EntryKind,
    pub(crate) name: &'static CStr,
}

const MAX: usize = 640;

struct EntryPoints(UnsafeCell<([EntryPoint; MAX], usize)>);

// SAFETY: written by the constructor, before there is another thread, and by `resolve` under the engine's lock.
unsafe impl Sync for EntryPoints {}

/// Block operations that write nothing.
const READERS: &[&CStr] = &[
    c"strlen",
    c"strnlen",
    c"strcmp",
    c"strncmp",
    c"strcasecmp",
    c"strncasecmp",
    c"memcmp",
    c"bcmp",
    c"memchr",
    c"memrchr",
    c"rawmemchr",
    c"__rawmemchr",
    c"strchr",
    c"index",
    c"strrchr",
    c"rindex",
    c"strchrnul",
    c"wcslen",
    c"wcscmp",
    c"wcsncmp",
    c"wmemcmp",
    c"wmemchr",
];
/// What a function means where there are watchpoints.
fn watched_kind(name: &CStr, implementation: unsafe extern "C" fn()) -> EntryKind {
    match name.to_bytes() {
        b"fread" | b"fread_unlocked" => return EntryKind::Stream(BlockKind::Fill),
        b"fwrite" | b"fwrite_unlocked" => return EntryKind::Stream(BlockKind::Fetch),
        _ => {}
    }
    match kind_of(name) {
        EntryKind::Plain => EntryKind::Block(implementation, !READERS.contains(&name)),
        EntryKind::Sync(_) => EntryKind::Plain,
        kind => kind,
    }
}

static TABLE: EntryPoints = EntryPoints(UnsafeCell::new((
    [EntryPoint { addr: 0, real: 0, number: 0, kind: EntryKind::Plain, name: c"" }; MAX],
    0,
)));
/// The real functions of libraries that were loaded since, by the entry's number; zero: not known.
static LATE: [AtomicU64; MAX] = [const { AtomicU64::new(0) }; MAX];
/// Whether any of them is known.
static HAS_LATE: AtomicBool = AtomicBool::new(false);
/// From where to where the real functions lie that are entries themselves.
static REAL: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Those among them that an allocator's function calls that does not return.
static RAISES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

fn kind_of(name: &CStr) -> EntryKind {
    if let Some(call) = allocators::of_library(name.to_bytes()) {
        return EntryKind::Allocator(call);
    }
    match name.to_bytes() {
        b"memtap_start" => EntryKind::Control(0),
        b"memtap_stop" => EntryKind::Control(1),
        b"memtap_mark" => EntryKind::Control(2),
        _ => sync::action(name).map_or(EntryKind::Plain, EntryKind::Sync),
    }
}

fn list() -> &'static [EntryPoint] {
    // SAFETY: the table is filled before other threads look; entries are only ever completed by a word.
    let table = unsafe { &*TABLE.0.get() };
    table.0.get(..table.1).unwrap_or(&[])
}

/// Finds the real functions, where the program calls ours; in a process that was attached to it calls the real ones, and
/// those are entries themselves.
pub(crate) fn prepare(is_preloaded: bool) {
    // Only there: opening may allocate, and ours are not known yet.
    let program = (!is_preloaded).then(LoadedProgram::open);
    if is_preloaded {
        // The loader frees its message for a name that it did not find: free must be known before that.
        // SAFETY: freeing nothing.
        unsafe { allocations::memtap_free(core::ptr::null_mut(), 0, 0, 0, 0, 0) };
    }
    // SAFETY: the constructor calls this, before there is another thread.
    let table = unsafe { &mut *TABLE.0.get() };
    table.1 = 0;
    let watches = PROCESS.settings().watches;
    let own =
        entry_points::ENTRIES.iter().zip(entry_points::IMPLEMENTATIONS).map(|(&name, &implementation)| {
            (name, if watches { watched_kind(name, implementation) } else { kind_of(name) })
        });
    let direct = entry_points::DIRECT
        .iter()
        .map(|&name| (name, if watches { EntryKind::Plain } else { kind_of(name) }));
    let plain = own.chain(direct);
    let notes = entry_points::NOTES.iter().map(|&(name, code)| (name, EntryKind::Note(code)));
    let (mut from, mut until) = (u64::MAX, 0);
    for (name, kind) in plain.chain(notes) {
        let addr =
            program.as_ref().map_or_else(|| real::first(name), |program| program.function(name)) as u64;
        // The program has its own; or, where it was attached to, nobody has it but us.
        if addr == 0 || PROCESS.owns_code(addr) != is_preloaded {
            continue;
        }
        let real = match (is_preloaded, kind) {
            (true, EntryKind::Control(_)) => 0,
            (true, _) => real::look_up(name) as u64,
            (false, EntryKind::Plain | EntryKind::Control(_)) => continue,
            (false, _) => addr,
        };
        if real == addr {
            (from, until) = (from.min(addr), until.max(addr + 1));
        }
        if let Some(place) = table.0.get_mut(table.1) {
            *place = EntryPoint { addr, real, number: table.1, kind, name };
            table.1 += 1;
        }
    }
    let mut add = |addr: u64, kind| {
        (from, until) = (from.min(addr), until.max(addr + 1));
        let is_known = table.0.iter().take(table.1).any(|entry| entry.addr == addr);
        if let Some(place) = table.0.get_mut(table.1).filter(|_| !is_known) {
            *place = EntryPoint { addr, real: addr, number: table.1, kind, name: c"an allocator's function" };
            table.1 += 1;
        }
    };
    find_own(is_preloaded, &mut add);
    if let Some(program) = &program {
        // The program does not want to be told of names that were not found.
        program.forget_error();
    }
    REAL[0].store(from, Ordering::Relaxed);
    REAL[1].store(until, Ordering::Relaxed);
}

/// Finds the functions of allocators that the program is linked with, or that are loaded in the C library's place.
fn find_own(is_preloaded: bool, add: &mut impl FnMut(u64, EntryKind)) {
    for place in &RAISES {
        place.store(0, Ordering::Relaxed);
    }
    let raises = |addr: u64| {
        if let Some(place) = RAISES.iter().find(|place| matches!(place.load(Ordering::Relaxed), 0)) {
            place.store(addr, Ordering::Relaxed);
        }
    };
    let mut has_operators = false;
    let mut each = |addr: u64, function| match function {
        Function::Allocator(call) => {
            has_operators |= allocators::is_operator(call.function);
            add(addr, EntryKind::Allocator(call));
        }
        Function::Operator(function) => add(addr, EntryKind::Note(function as u8)),
        Function::Raises => {
            raises(addr);
            add(addr, EntryKind::Raises);
        }
    };
    let image = PROCESS.image_entry();
    // SAFETY: asks for a word of what the kernel told the process.
    let program = image.map_or_else(|| unsafe { libc::getauxval(libc::AT_ENTRY) }, |(entry, _)| entry);
    let _ = own_allocators::find(program, image.is_some(), &mut each);
    if image.is_none() && is_preloaded {
        let [malloc, library] = [c"malloc", c"__libc_start_main"].map(|name| real::look_up(name) as u64);
        if malloc != 0 && !own_allocators::are_of_one_file(malloc, library) {
            let _ = own_allocators::find(malloc, false, &mut each);
        }
    }
    if has_operators && image.is_none() {
        for name in [c"_Unwind_RaiseException", c"__cxa_allocate_exception"] {
            let addr = real::first(name) as u64;
            if addr != 0 {
                raises(addr);
                add(addr, EntryKind::Raises);
            }
        }
    }
}

/// Whether the function at `addr` is one that ends allocators' functions.
pub(crate) fn raises(addr: u64) -> bool {
    RAISES.iter().any(|place| place.load(Ordering::Relaxed) == addr)
}

/// Whether the function at `addr` is an entry itself.
pub(crate) fn is_real(addr: u64) -> bool {
    let (from, until) = (REAL[0].load(Ordering::Relaxed), REAL[1].load(Ordering::Relaxed));
    (from..until).contains(&addr)
        && find(addr).is_some_and(|entry| entry.real == addr && !matches!(entry.kind, EntryKind::Raises))
}

pub(crate) fn find(addr: u64) -> Option<&'static EntryPoint> {
    list().iter().find(|entry| entry.addr == addr)
}

pub(crate) fn is_entry(addr: u64) -> bool {
    find(addr).is_some()
}

/// The real function's address; zero where it is not known, or not yet.
fn known(entry: &EntryPoint) -> u64 {
    if entry.real != 0 {
        return entry.real;
    }
    LATE.get(entry.number).map_or(0, |late| late.load(Ordering::Relaxed))
}

/// The real function's address. The loader is asked where its library was not there at start-up: not by whoever holds a lock that
/// another thread may wait for in the loader.
pub(crate) fn real_of(entry: &EntryPoint) -> u64 {
    let known = known(entry);
    if known != 0 {
        return known;
    }
    let found = real::look_up(entry.name) as u64;
    if let Some(late) = LATE.get(entry.number).filter(|_| found != 0) {
        late.store(found, Ordering::Relaxed);
        HAS_LATE.store(true, Ordering::Relaxed);
    }
    found
}

/// What lay there is gone, or is something else now.
pub(crate) fn forget(start: u64, end: u64) {
    if !HAS_LATE.load(Ordering::Relaxed) {
        return;
    }
    for late in LATE.iter().filter(|late| (start..end).contains(&late.load(Ordering::Relaxed))) {
        late.store(0, Ordering::Relaxed);
    }
}

/// Where a call of the function at `addr` goes without us, as far as that is known.
pub(crate) fn resolve(addr: u64, mode: Mode) -> u64 {
    let Some(entry) = find(addr) else { return addr };
    let plain = match entry.kind {
        EntryKind::Plain => true,
        EntryKind::Control(_) => false,
        EntryKind::Block(_, writes) => mode != Mode::Record || !writes && !watchpoints::are_reads(),
        EntryKind::Stream(kind) => {
            mode != Mode::Record || kind == BlockKind::Fetch && !watchpoints::are_reads()
        }
        EntryKind::Allocator(_) | EntryKind::Note(_) | EntryKind::Sync(_) => mode != Mode::Record,
        EntryKind::Raises => mode != Mode::Silent,
    };
    match known(entry) {
        real if plain && real != 0 => real,
        _ => addr,
    }
}
