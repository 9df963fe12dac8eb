//! The functions whose place ours take, as translated code sees them: where they are, and what a call of one means.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

use code_cache::Mode;
use memref::{AllocationFunction, AllocationKind, BlockKind};

use crate::calls::real::{self, LoadedProgram};
use crate::calls::{allocations, entry_points};
use crate::state::process::PROCESS;
use crate::translate::sync::{self, Action};
use crate::watch::watchpoints;

/// What a call of one means.
#[derive(Clone, Copy)]
pub(crate) enum EntryKind {
    /// Nothing: the real one runs.
    Plain,
    /// It is an event, that many of its arguments telling what it does.
    Allocator(AllocationKind, AllocationFunction),
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
    pub(crate) real: u64,
    pub(crate) kind: EntryKind,
    pub(crate) name: &'static CStr,
}

const MAX: usize = 384;

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
    [EntryPoint { addr: 0, real: 0, kind: EntryKind::Plain, name: c"" }; MAX],
    0,
)));
/// From where to where the real functions lie that are entries themselves.
static REAL: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

fn kind_of(name: &CStr) -> EntryKind {
    use AllocationFunction as F;
    use AllocationKind as K;
    match name.to_bytes() {
        b"malloc" => EntryKind::Allocator(K::Malloc, F::Malloc),
        b"calloc" => EntryKind::Allocator(K::Calloc, F::Calloc),
        b"realloc" => EntryKind::Allocator(K::Realloc, F::Realloc),
        b"reallocarray" => EntryKind::Allocator(K::Realloc, F::Reallocarray),
        b"free" => EntryKind::Allocator(K::Free, F::Free),
        b"posix_memalign" => EntryKind::Allocator(K::Malloc, F::PosixMemalign),
        b"aligned_alloc" => EntryKind::Allocator(K::Malloc, F::AlignedAlloc),
        b"memalign" => EntryKind::Allocator(K::Malloc, F::Memalign),
        b"valloc" | b"pvalloc" => EntryKind::Allocator(K::Malloc, F::Valloc),
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
            *place = EntryPoint { addr, real, kind, name };
            table.1 += 1;
        }
    }
    if let Some(program) = &program {
        // The program does not want to be told of names that were not found.
        program.forget_error();
    }
    REAL[0].store(from, Ordering::Relaxed);
    REAL[1].store(until, Ordering::Relaxed);
}

/// Whether the function at `addr` is an entry itself.
pub(crate) fn is_real(addr: u64) -> bool {
    let (from, until) = (REAL[0].load(Ordering::Relaxed), REAL[1].load(Ordering::Relaxed));
    (from..until).contains(&addr) && find(addr).is_some_and(|entry| entry.real == addr)
}

pub(crate) fn find(addr: u64) -> Option<&'static EntryPoint> {
    list().iter().find(|entry| entry.addr == addr)
}

pub(crate) fn is_entry(addr: u64) -> bool {
    find(addr).is_some()
}

/// The real function's address, asked for again where its library was not there at start-up.
pub(crate) fn real_of(entry: &EntryPoint) -> u64 {
    if entry.real != 0 {
        return entry.real;
    }
    real::look_up(entry.name) as u64
}

/// Where a call of the function at `addr` goes without us.
pub(crate) fn resolve(addr: u64, mode: Mode) -> u64 {
    let Some(entry) = find(addr) else { return addr };
    let plain = match entry.kind {
        EntryKind::Plain => true,
        EntryKind::Control(_) => false,
        EntryKind::Block(_, writes) => mode != Mode::Record || !writes && !watchpoints::are_reads(),
        EntryKind::Stream(kind) => {
            mode != Mode::Record || kind == BlockKind::Fetch && !watchpoints::are_reads()
        }
        EntryKind::Allocator(..) | EntryKind::Note(_) | EntryKind::Sync(_) => mode != Mode::Record,
    };
    match real_of(entry) {
        real if plain && real != 0 => real,
        _ => addr,
    }
}
