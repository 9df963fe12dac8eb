//! Live watchpoints: only pages that hold one are closed, or, where the program is translated, only accesses to marked lines
//! leave the cache; and an access there becomes a record only where it touches watched bytes, with what they held before and
//! after and the stack that led there.
//!
//! The recorder leaves a list of what is wanted in a file: addresses, addresses of the program's own module, and blocks by
//! the function that allocates them, which become addresses when they are allocated. Whoever is about to access memory
//! notes what of it is watched ([`Touched`]), and tells when it is done. A hit is a record that the recorder reads at once.
//! Where the program is to stop at a hit, it stops itself behind it: whoever continues it, it goes on.

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use buffers::Record;
use buffers::list::{
    ABSOLUTE, CHOICE_STOP, CHOICE_THREAD, CHOICE_VALUE, ENTRY_BYTES, KIND_ADDRESS, KIND_CHOICES, KIND_LOCAL,
    KIND_MODULE, KIND_SITE,
};
use code_cache::{LOADS, Marks, STORES};
use memref::{AccessKind, BlockKind, VirtAddr};
use tracee::lock::{Guard, Lock};
use tracee::{maps, sys, tls};
use x86::Registers;

use crate::emit::next_order;
use crate::locals;
use crate::memory::{Range, Ranges, is_viewed, open_address};
use crate::stack::{self, MOST_FRAMES};
use crate::state::{PROCESS, Thread};

/// Watchpoints that a process can have.
const MAX_WATCHES: usize = 1 << 22;
/// Sites that blocks can be watched by.
const MAX_SITES: usize = 1024;
/// Thread-local variables that can be watched.
const MAX_LOCALS: usize = 64;

/// Watched bytes. Bit 0: reads; bit 1: writes.
#[derive(Clone, Copy)]
struct Watch {
    start: u64,
    end: u64,
    id: u32,
    bits: u32,
}

/// Blocks that calls in a stretch of code allocate.
#[derive(Clone, Copy)]
struct Site {
    start: u64,
    end: u64,
    /// Which of them, from 1; 0: all.
    number: u64,
    seen: u64,
    id: u32,
    bits: u32,
}

/// A thread-local variable: where it is from the base of fs on, in every thread.
#[derive(Clone, Copy)]
struct Local {
    distance: u64,
    len: u64,
    id: u32,
    bits: u32,
}

struct List {
    watches: *mut Watch,
    len: usize,
    /// The length of the longest.
    longest: u64,
    /// Where the last search ended.
    hint: Cell<usize>,
    sites: *mut Site,
    site_count: usize,
    locals: [Local; MAX_LOCALS],
    local_count: usize,
    /// Where the program is translated: lines whose accesses are looked at.
    marks: Option<Marks>,
    /// TiBs of address space that ever held a watch, a bit each: they share their marks.
    terabytes: u128,
}

// SAFETY: memory of this process that only the holder of the lock uses.
unsafe impl Send for List {}

static LIST: Lock<List> = Lock::new(List {
    watches: core::ptr::null_mut(),
    len: 0,
    longest: 0,
    hint: Cell::new(0),
    sites: core::ptr::null_mut(),
    site_count: 0,
    locals: [Local { distance: 0, len: 0, id: 0, bits: 0 }; MAX_LOCALS],
    local_count: 0,
    marks: None,
    terabytes: 0,
});
/// Whether the process is watched, and not recorded. Written by the constructor.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// Which hits are told, and whether the process stops at them; written by the constructor. Bits as in the list.
static CHOICES: AtomicU64 = AtomicU64::new(0);
static CHOSEN_VALUE: AtomicU64 = AtomicU64::new(0);
static CHOSEN_THREAD: AtomicU64 = AtomicU64::new(0);
/// Held by a thread that stops the process, until it is continued: there is one stop at a time.
static STOPPED: Lock<()> = Lock::new(());

/// Whether there are watchpoints instead of a recording.
#[inline]
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

fn mark_of(bits: u32) -> u8 {
    (if bits & 1 != 0 { LOADS } else { 0 }) | if bits & 2 != 0 { STORES } else { 0 }
}

/// Bits of an address inside of a TiB.
const TERABYTE_BITS: u32 = 40;

/// Whether any read is watched. Written by the constructor.
static READS: AtomicBool = AtomicBool::new(false);

/// Whether reads are watched anywhere.
pub(crate) fn are_reads() -> bool {
    READS.load(Ordering::Relaxed)
}

/// Makes the table of marks, for a program that is translated.
pub(crate) fn make_marks() -> Option<Marks> {
    let marks = Marks::new();
    LIST.lock().marks = marks;
    marks
}

/// What is watched of an access of that kind: loads are bit 0, stores bit 1.
fn bits_of(kind: AccessKind) -> u32 {
    u32::from(kind.reads()) | u32::from(kind.writes()) << 1
}

impl List {
    fn as_slice(&self) -> &[Watch] {
        if self.watches.is_null() {
            return &[];
        }
        // SAFETY: `len` entries were written.
        unsafe { core::slice::from_raw_parts(self.watches, self.len) }
    }

    fn insert(&mut self, watch: Watch) {
        if self.watches.is_null() || self.len >= MAX_WATCHES || watch.start >= watch.end {
            return;
        }
        // The recorder's list is in this order: nearly all go to the end.
        let at = match self.as_slice().last() {
            Some(last) if last.start > watch.start => {
                self.as_slice().partition_point(|other| other.start <= watch.start)
            }
            _ => self.len,
        };
        // SAFETY: `at <= len < MAX_WATCHES`: the moved entries and the new one lie inside the list's memory.
        unsafe {
            let place = self.watches.add(at);
            core::ptr::copy(place, place.add(1), self.len - at);
            place.write(watch);
        }
        self.len += 1;
        self.longest = self.longest.max(watch.end - watch.start);
        if let Some(marks) = self.marks {
            marks.add(watch.start, watch.end, mark_of(watch.bits));
        }
        for terabyte in watch.start >> TERABYTE_BITS..=(watch.end - 1) >> TERABYTE_BITS {
            self.terabytes |= 1u128.checked_shl(terabyte as u32).unwrap_or(0);
        }
    }

    /// Watched bytes of a range are gone: its lines are marked for what is left.
    fn unmark(&self, start: u64, end: u64) {
        let Some(marks) = self.marks else { return };
        marks.set(start, end, |line, reach| {
            let mut found = 0;
            let mut terabytes = self.terabytes;
            while terabytes != 0 {
                let base = u64::from(terabytes.trailing_zeros()) << TERABYTE_BITS;
                terabytes &= terabytes - 1;
                let start = base + (line & ((1 << TERABYTE_BITS) - 1));
                self.each(start, start + (reach - line), |watch| found |= watch.bits);
            }
            mark_of(found)
        });
    }

    /// Watches the thread-local variables of the thread whose base of fs that is. `false`: there are none, or another
    /// thread has them.
    fn insert_locals(&mut self, base: u64) -> bool {
        let mut some = false;
        for index in 0..self.local_count {
            let Some(&Local { distance, len, id, bits }) = self.locals.get(index) else { break };
            let start = base.wrapping_add(distance);
            let watch = Watch { start, end: start.saturating_add(len), id: id | OF_LOCAL, bits };
            let mut known = false;
            self.each(watch.start, watch.end, |other| known |= other.id == watch.id);
            if !known {
                self.insert(watch);
                some = true;
            }
        }
        some
    }

    fn remove_locals(&mut self, base: u64) {
        for index in 0..self.local_count {
            let Some(&Local { distance, len, id, .. }) = self.locals.get(index) else { break };
            let start = base.wrapping_add(distance);
            self.remove_found(start, |watch| watch.id == id | OF_LOCAL);
            self.unmark(start, start.saturating_add(len));
        }
    }

    /// Removes the watches that begin at an address and are such. Returns where the last of them ended.
    fn remove_found(&mut self, addr: u64, is_such: impl Fn(&Watch) -> bool) -> Option<u64> {
        let mut end = None;
        loop {
            let found = self.as_slice().partition_point(|watch| watch.start < addr);
            let mut same = (found..self.len)
                .map_while(|at| self.as_slice().get(at).filter(|w| w.start == addr).map(|w| (at, w)));
            let Some((at, watch)) = same.find(|(_, watch)| is_such(watch)) else { return end };
            end = end.max(Some(watch.end));
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) {
        if at < self.len {
            // SAFETY: the entry exists; those behind it move one place down.
            unsafe {
                let place = self.watches.add(at);
                core::ptr::copy(place.add(1), place, self.len - at - 1);
            }
            self.len -= 1;
        }
    }

    /// How many watches begin in front of an address. Most searches end where the last one did, or one further.
    fn behind(&self, addr: u64) -> usize {
        let all = self.as_slice();
        let is_it = |at: usize| {
            at <= all.len()
                && at.checked_sub(1).and_then(|before| all.get(before)).is_none_or(|watch| watch.start < addr)
                && all.get(at).is_none_or(|watch| watch.start >= addr)
        };
        let hint = self.hint.get();
        let at = match [hint, hint + 1].into_iter().find(|&at| is_it(at)) {
            Some(at) => at,
            None => all.partition_point(|watch| watch.start < addr),
        };
        self.hint.set(at);
        at
    }

    /// Watches that meet a range, one after the other.
    fn each(&self, start: u64, end: u64, mut visit: impl FnMut(Watch)) {
        let all = self.as_slice();
        let mut at = self.behind(end);
        while let Some(watch) = at.checked_sub(1).and_then(|before| all.get(before)) {
            if watch.start.saturating_add(self.longest) <= start {
                return;
            }
            if watch.end > start {
                visit(*watch);
            }
            at -= 1;
        }
    }
}

/// Reads the list, if there is one, and closes nothing but the pages that it names. Called by the constructor when the
/// program's memory has its second view.
pub(crate) fn load(path: &[u8]) {
    if path.first().is_none_or(|&byte| byte == 0) {
        return;
    }
    let Some((bytes, len)) = read(path) else {
        sys::complain(b"memtap: the list of watchpoints can't be read; nothing is watched\n");
        return;
    };
    let rw = sys::PROT_READ | sys::PROT_WRITE;
    let watches = sys::map_anonymous((MAX_WATCHES * size_of::<Watch>()) as u64, rw);
    let sites = sys::map_anonymous((MAX_SITES * size_of::<Site>()) as u64, rw);
    let (Some(watches), Some(sites)) = (watches, sites) else { return };
    let base = program_base();
    {
        let mut list = LIST.lock();
        list.watches = watches.cast();
        list.sites = sites.cast();
        for at in (0..len / ENTRY_BYTES).map(|index| index * ENTRY_BYTES) {
            // SAFETY: the mapping holds `len` bytes, and entries are aligned to 8.
            let word = |index: usize| unsafe { (bytes.add(at) as *const u64).add(index).read() };
            let (kind, bits, id) = (word(0) & 0xff, (word(0) >> 8) as u32 & 3, word(4) as u32);
            let is_absolute = kind == KIND_ADDRESS || word(0) & ABSOLUTE != 0;
            let start = if is_absolute { word(1) } else { base.wrapping_add(word(1)) };
            let end = start.saturating_add(word(2));
            if bits & 1 != 0 && kind != KIND_CHOICES {
                READS.store(true, Ordering::Relaxed);
            }
            if kind == KIND_LOCAL {
                let at = list.local_count;
                if let Some(block) = locals::block_of(word(3))
                    && let Some(local) = list.locals.get_mut(at)
                {
                    let distance = block.wrapping_add(word(1)).wrapping_sub(tls::fs_base());
                    *local = Local { distance, len: word(2), id, bits };
                    list.local_count += 1;
                }
            } else if kind == KIND_ADDRESS || kind == KIND_MODULE {
                list.insert(Watch { start, end, id, bits });
            } else if kind == KIND_CHOICES {
                CHOICES.store(word(0) >> 8 & 0xff, Ordering::Relaxed);
                CHOSEN_VALUE.store(word(1), Ordering::Relaxed);
                CHOSEN_THREAD.store(word(2), Ordering::Relaxed);
            } else if kind == KIND_SITE && list.site_count < MAX_SITES {
                let site = Site { start, end, number: word(3), seen: 0, id, bits };
                // SAFETY: below the number of sites that there is room for.
                unsafe { list.sites.add(list.site_count).write(site) };
                list.site_count += 1;
            }
        }
    }
    // SAFETY: mapped by `read`; nothing refers to it any more.
    unsafe { sys::munmap(bytes as u64, len.next_multiple_of(4096) as u64) };
    ACTIVE.store(true, Ordering::Release);
    if PROCESS.settings().translate {
        return;
    }
    let mut ranges = PROCESS.ranges.lock();
    ranges.update(0, u64::MAX, |range| range.traced = false);
    mark(&mut ranges, 0, u64::MAX);
}

fn read(path: &[u8]) -> Option<(*const u8, usize)> {
    let open = [
        libc::AT_FDCWD as usize,
        path.as_ptr() as usize,
        (libc::O_RDONLY | libc::O_CLOEXEC) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: a terminated path.
    let file = unsafe { sys::syscall(libc::SYS_openat as usize, open) };
    if sys::failed(file) {
        return None;
    }
    let file = sys::Fd(file as i32);
    // SAFETY: lseek takes no pointer.
    let len = unsafe {
        sys::syscall(libc::SYS_lseek as usize, [file.0 as usize, 0, libc::SEEK_END as usize, 0, 0, 0])
    };
    if len <= 0 {
        return None;
    }
    let private = 2;
    // SAFETY: a new mapping replaces nothing.
    let memory =
        unsafe { sys::mmap(0, (len as u64).next_multiple_of(4096), sys::PROT_READ, private, file.0, 0) };
    (!sys::failed(memory)).then_some((memory as *const u8, len as usize))
}

/// Where the program's own module begins.
fn program_base() -> u64 {
    let mut name = [0u8; 1024];
    let args = [c"/proc/self/exe".as_ptr() as usize, name.as_mut_ptr() as usize, name.len(), 0, 0, 0];
    // SAFETY: a terminated name; the kernel writes at most the array.
    let len = unsafe { sys::syscall(libc::SYS_readlink as usize, args) }.max(0) as usize;
    let mut base = 0;
    maps::each(|mapping| {
        if base == 0 && mapping.offset == 0 && Some(mapping.name) == name.get(..len) {
            base = mapping.start;
        }
    });
    base
}

/// Marks the pages of watched bytes between two addresses as traced. Neighbouring pages become one range.
fn mark(ranges: &mut Ranges, from: u64, to: u64) {
    let list = LIST.lock();
    let mut run = (0, 0);
    let mut flush = |run: (u64, u64)| {
        if run.0 < run.1 {
            ranges.update(run.0.max(from), run.1.min(to), |range| range.traced = true);
        }
    };
    for watch in list.as_slice() {
        let (start, end) = (watch.start & !4095, watch.end.saturating_add(4095) & !4095);
        if start <= run.1 && run.0 < run.1 {
            run.1 = run.1.max(end);
        } else {
            flush(run);
            run = (start, end);
        }
    }
    flush(run);
}

/// New memory of the program: what of it is watched already.
pub(crate) fn adopted(ranges: &mut Ranges, range: &Range) {
    if is_active() {
        ranges.update(range.start, range.end, |range| range.traced = false);
        mark(ranges, range.start, range.end);
    }
}

/// A block was allocated by a call at `ip`.
pub(crate) fn allocated(ip: u64, addr: u64, len: u64) {
    if !is_active() || len == 0 {
        return;
    }
    let mut some = false;
    {
        let mut list = LIST.lock();
        for index in 0..list.site_count {
            // SAFETY: below the number of sites.
            let site = unsafe { &mut *list.sites.add(index) };
            if !(site.start..site.end).contains(&ip) {
                continue;
            }
            site.seen += 1;
            if site.number == 0 || site.number == site.seen {
                let watch = Watch {
                    start: addr,
                    end: addr.saturating_add(len),
                    id: site.id | FROM_SITE,
                    bits: site.bits,
                };
                list.insert(watch);
                some = true;
            }
        }
    }
    if some && !PROCESS.settings().translate {
        let (start, end) = (addr & !4095, addr.saturating_add(len + 4095) & !4095);
        let recording = PROCESS.is_recording();
        let mut ranges = PROCESS.ranges.lock();
        ranges.update(start, end, |range| range.traced = true);
        if recording {
            ranges.each_within(start, end, |part| {
                // SAFETY: each access to closed memory is repaired by the fault handler.
                unsafe { sys::mprotect(part.start, part.end - part.start, sys::PROT_NONE) };
            });
        }
    }
}

/// Watches of blocks, which end with the block.
const FROM_SITE: u32 = 1 << 31;
/// Watches of thread-local variables, which end with the thread.
const OF_LOCAL: u32 = 1 << 30;
const KINDS: u32 = FROM_SITE | OF_LOCAL;

/// A block was released.
pub(crate) fn released(addr: u64) {
    if !is_active() {
        return;
    }
    let mut list = LIST.lock();
    if let Some(end) = list.remove_found(addr, |watch| watch.id & FROM_SITE != 0) {
        list.unmark(addr, end);
    }
}

/// A thread begins, or has another base of fs. Returns whether its thread-local variables are watched from now on.
pub(crate) fn begin_locals(base: u64) -> bool {
    is_active() && LIST.lock().insert_locals(base)
}

/// A thread ends whose thread-local variables are watched.
pub(crate) fn end_locals(base: u64) {
    LIST.lock().remove_locals(base);
}

core::arch::global_asm!(
    ".globl memtap_peek",
    ".hidden memtap_peek",
    ".globl memtap_peek_bytes",
    ".hidden memtap_peek_bytes",
    ".globl memtap_peek_fault",
    ".hidden memtap_peek_fault",
    // memtap_peek(to, from, len): zero where the bytes could be read.
    "memtap_peek:",
    "mov rcx, rdx",
    "memtap_peek_bytes:",
    "rep movsb",
    "xor eax, eax",
    "ret",
    "memtap_peek_fault:",
    "mov eax, 1",
    "ret",
);

unsafe extern "C" {
    fn memtap_peek(to: *mut u8, from: u64, len: u64) -> u32;
    fn memtap_peek_bytes();
    fn memtap_peek_fault();
}

/// A fault of [`value`]: it goes on, and knows. `false`: it is no such fault.
pub(crate) fn on_fault(rip: &mut u64) -> bool {
    let is_own = *rip == memtap_peek_bytes as *const () as u64;
    if is_own {
        *rip = memtap_peek_fault as *const () as u64;
    }
    is_own
}

/// At most 8 bytes of the program's memory; `None` where there is nothing to read.
fn value(addr: u64, len: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    // SAFETY: writes the array; a fault of reading is caught.
    let failed = unsafe { memtap_peek(bytes.as_mut_ptr(), open_address(addr), len.min(8)) };
    (failed == 0).then(|| u64::from_le_bytes(bytes))
}

/// Whether watched bytes are of memory that we see: nothing is closed elsewhere. What is translated is seen everywhere.
fn is_watched(addr: u64, end: u64) -> bool {
    PROCESS.settings().translate || is_viewed(addr, end - addr)
}

/// Watches that one access or block operation is told of.
const MOST_HITS: usize = 64;

/// Watched bytes that are about to be accessed.
#[derive(Clone, Copy)]
struct Touch {
    id: u32,
    kind: AccessKind,
    addr: u64,
    len: u64,
    old: Option<u64>,
}

/// What an instruction or a block operation touches of what is watched.
#[derive(Clone, Copy)]
pub(crate) struct Touched {
    /// The first `count` are written.
    list: [MaybeUninit<Touch>; MOST_HITS],
    count: usize,
}

/// Where an access is made.
pub(crate) enum Origin<'a> {
    /// Before the instruction at `ip`, with these registers.
    Instruction(&'a Registers),
    /// In a function of ours that the program calls.
    Call,
}

impl Touched {
    /// Nothing.
    pub(crate) const fn new() -> Self {
        Self { list: [MaybeUninit::uninit(); MOST_HITS], count: 0 }
    }

    /// What it holds; nothing is left here.
    pub(crate) fn take(&mut self) -> Self {
        let mut taken = Self::new();
        for (to, from) in taken.list.iter_mut().zip(&self.list).take(self.count) {
            *to = *from;
        }
        taken.count = core::mem::take(&mut self.count);
        taken
    }

    /// Whether nothing is touched.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether there is no room for more.
    pub(crate) fn is_full(&self) -> bool {
        self.count == MOST_HITS
    }

    /// Forgets it: the access was not made.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// An access is about to be made. `known` where nothing was changed yet.
    pub(crate) fn note(&mut self, addr: u64, len: u64, kind: AccessKind, known: bool) {
        let end = addr.saturating_add(len);
        LIST.lock().each(addr, end, |watch| {
            if watch.bits & bits_of(kind) != 0
                && is_watched(watch.start.max(addr), watch.end.min(end))
                && let Some(place) = self.list.get_mut(self.count)
            {
                let (from, to) = (watch.start.max(addr), watch.end.min(end));
                let old = if known { value(from, to - from) } else { None };
                if old.is_none() && known {
                    // The access will fault.
                    return;
                }
                place.write(Touch { id: watch.id & !KINDS, kind, addr: from, len: to - from, old });
                self.count += 1;
            }
        });
    }

    /// A block of memory is about to be written.
    pub(crate) fn note_write(&mut self, addr: u64, len: usize) {
        if is_active() && len != 0 {
            self.note(addr, len as u64, AccessKind::Store, true);
        }
    }

    /// Less was written than was noted.
    fn cut(&mut self, end: u64) {
        // SAFETY: `note` wrote the first `count`.
        let list =
            unsafe { core::slice::from_raw_parts_mut(self.list.as_mut_ptr().cast::<Touch>(), self.count) };
        let mut kept = 0;
        for index in 0..list.len() {
            let Some(touch) = list.get(index).copied().filter(|touch| touch.addr < end) else { continue };
            if let Some(place) = list.get_mut(kept) {
                *place = Touch { len: touch.len.min(end - touch.addr), ..touch };
                kept += 1;
            }
        }
        self.count = kept;
    }

    /// What was noted has happened: tells of it.
    pub(crate) fn tell(&mut self, thread: &mut Thread, ip: u64, origin: &Origin<'_>) {
        if self.count == 0 {
            return;
        }
        let choices = CHOICES.load(Ordering::Relaxed);
        let count = core::mem::take(&mut self.count);
        // SAFETY: `note` wrote the first `count`.
        let list = unsafe { core::slice::from_raw_parts(self.list.as_ptr().cast::<Touch>(), count) };
        if choices & CHOICE_THREAD != 0 && CHOSEN_THREAD.load(Ordering::Relaxed) != thread.number.into() {
            return;
        }
        let is_told = |new: u64| choices & CHOICE_VALUE == 0 || CHOSEN_VALUE.load(Ordering::Relaxed) == new;
        let now = |touch: &Touch| value(touch.addr, touch.len).unwrap_or(0);
        let last = list.iter().rposition(|touch| is_told(now(touch)));
        let Some(last) = last else { return };
        let stops = choices & CHOICE_STOP != 0;
        let held = stops.then(|| STOPPED.lock());
        let mut addresses = [0; MOST_FRAMES];
        let frames = match origin {
            Origin::Instruction(registers) => stack::frames(thread, ip, registers, &mut addresses),
            Origin::Call if PROCESS.settings().translate => {
                // The function was called from a handler: the program's registers are those before the call.
                let registers = thread.before;
                stack::frames(thread, registers.rip, &registers, &mut addresses)
            }
            Origin::Call => stack::callers(thread, &mut addresses),
        };
        // SAFETY: the words that were just written, as bytes.
        let frames = unsafe { core::slice::from_raw_parts(addresses.as_ptr().cast::<u8>(), frames * 8) };
        for (index, touch) in list.iter().enumerate() {
            let new = now(touch);
            if is_told(new) {
                thread.emit(&Record::Hit {
                    order: next_order(),
                    ip: VirtAddr(ip),
                    kind: touch.kind,
                    addr: VirtAddr(touch.addr),
                    len: touch.len,
                    watch: touch.id,
                    stops: stops && index == last,
                    old: touch.old,
                    new,
                    stack: frames,
                });
            }
        }
        if let Some(pool) = PROCESS.pool()
            && pool.control().announce()
        {
            sys::futex_wake(pool.control().submitted_word().as_ptr());
        }
        if held.is_some() {
            let args = [sys::getpid() as usize, sys::gettid() as usize, libc::SIGSTOP as usize, 0, 0, 0];
            // SAFETY: stops this process; there are no pointers. It returns when somebody continues it.
            unsafe { sys::syscall(libc::SYS_tgkill as usize, args) };
            if let Some(pool) = PROCESS.pool()
                && let Some(slot) = pool.process(PROCESS.number.load(Ordering::Relaxed))
            {
                slot.resume();
            }
        }
    }
}

/// A block operation was performed: `len` bytes, of whose destination `touched` was noted before.
pub(crate) fn block(
    thread: &mut Thread,
    touched: &mut Touched,
    ip: u64,
    kind: BlockKind,
    (dst, src, len): (u64, u64, u64),
    origin: &Origin<'_>,
) {
    if matches!(kind, BlockKind::Copy | BlockKind::Fill) {
        touched.cut(dst.saturating_add(len));
    }
    if matches!(kind, BlockKind::Copy | BlockKind::Fetch) {
        touched.note(src, len, AccessKind::Load, true);
    }
    touched.tell(thread, ip, origin);
}

/// What [`hold`] holds.
pub(crate) struct Held(#[allow(dead_code)] Guard<'static, List>, #[allow(dead_code)] stack::Held);

/// Held during a fork: no other thread of ours is in the middle of a change.
pub(crate) fn hold() -> Held {
    Held(LIST.lock(), stack::hold())
}
