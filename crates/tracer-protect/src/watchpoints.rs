//! Live watchpoints: only pages that hold one are closed, and an access there becomes a record only where it touches watched
//! bytes, with what they held before and after and the stack that led there.
//!
//! The recorder leaves a list of what is wanted in a file: addresses, addresses of the program's own module, and blocks by
//! the function that allocates them, which become addresses when they are allocated. Whoever is about to access memory
//! notes what of it is watched ([`Touched`]), and tells when it is done. A hit is a record that the recorder reads at once.
//! Where the program is to stop at a hit, it stops itself behind it: whoever continues it, it goes on.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memref::{AccessKind, BlockKind, VirtAddr};
use segment::Record;
use tracee::lock::{Guard, Lock};
use tracee::{maps, sys};
use x86::Registers;

use crate::emit::next_order;
use crate::memory::{Range, Ranges, is_viewed, open_address};
use crate::stack::{self, MOST_FRAMES};
use crate::state::{PROCESS, Thread};

/// Bytes of an entry of the list: kind and bits, address, length, number, and the watchpoint's own number. Of the entry of
/// choices, the bits say which there are, and address and length are the value and the thread that hits must have.
const ENTRY_BYTES: usize = 40;
/// Watchpoints that a process can have.
const MAX_WATCHES: usize = 1 << 22;
/// Sites that blocks can be watched by.
const MAX_SITES: usize = 1024;
const KIND_ADDRESS: u64 = 0;
const KIND_MODULE: u64 = 1;
const KIND_SITE: u64 = 2;
const CHOICE_STOP: u64 = 1;
const CHOICE_VALUE: u64 = 2;
const CHOICE_THREAD: u64 = 4;

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

struct List {
    watches: *mut Watch,
    len: usize,
    /// The length of the longest.
    longest: u64,
    sites: *mut Site,
    site_count: usize,
}

// SAFETY: memory of this process that only the holder of the lock uses.
unsafe impl Send for List {}

static LIST: Lock<List> = Lock::new(List {
    watches: core::ptr::null_mut(),
    len: 0,
    longest: 0,
    sites: core::ptr::null_mut(),
    site_count: 0,
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

    /// Watches that meet a range, one after the other.
    fn each(&self, start: u64, end: u64, mut visit: impl FnMut(Watch)) {
        let all = self.as_slice();
        let mut at = all.partition_point(|watch| watch.start < end);
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
            let start = if kind == KIND_ADDRESS { word(1) } else { base.wrapping_add(word(1)) };
            let end = start.saturating_add(word(2));
            if kind == KIND_ADDRESS || kind == KIND_MODULE {
                list.insert(Watch { start, end, id, bits });
            } else if kind != KIND_SITE {
                CHOICES.store(word(0) >> 8, Ordering::Relaxed);
                CHOSEN_VALUE.store(word(1), Ordering::Relaxed);
                CHOSEN_THREAD.store(word(2), Ordering::Relaxed);
            } else if list.site_count < MAX_SITES {
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
    if some {
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

/// A block was released.
pub(crate) fn released(addr: u64) {
    if !is_active() {
        return;
    }
    let mut list = LIST.lock();
    loop {
        let found = list.as_slice().partition_point(|watch| watch.start < addr);
        let at = (found..list.len)
            .take_while(|&at| list.as_slice().get(at).is_some_and(|watch| watch.start == addr))
            .find(|&at| list.as_slice().get(at).is_some_and(|watch| watch.id & FROM_SITE != 0));
        match at {
            Some(at) => list.remove(at),
            None => return,
        }
    }
}

/// At most 8 bytes of the program's memory.
fn value(addr: u64, len: u64) -> u64 {
    let mut value = 0;
    for index in 0..len.min(8) {
        // SAFETY: memory that is watched and viewed, open to us.
        value |= u64::from(unsafe { (open_address(addr.wrapping_add(index)) as *const u8).read_volatile() })
            << (8 * index);
    }
    value
}

/// Whether watched bytes are of memory that we see: nothing is closed elsewhere, and it may not even be there.
fn is_watched(addr: u64, end: u64) -> bool {
    is_viewed(addr, end - addr)
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
                let old = known.then(|| value(from, to - from));
                place.write(Touch { id: watch.id & !FROM_SITE, kind, addr: from, len: to - from, old });
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
        let last = list.iter().rposition(|touch| is_told(value(touch.addr, touch.len)));
        let Some(last) = last else { return };
        let stops = choices & CHOICE_STOP != 0;
        let held = stops.then(|| STOPPED.lock());
        let mut addresses = [0; MOST_FRAMES];
        let frames = match origin {
            Origin::Instruction(registers) => stack::frames(thread, ip, registers, &mut addresses),
            Origin::Call => stack::callers(thread, &mut addresses),
        };
        // SAFETY: the words that were just written, as bytes.
        let frames = unsafe { core::slice::from_raw_parts(addresses.as_ptr().cast::<u8>(), frames * 8) };
        for (index, touch) in list.iter().enumerate() {
            let new = value(touch.addr, touch.len);
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
