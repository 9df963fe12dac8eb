//! Live watchpoints: only pages that hold one are closed, and an access there becomes a record only where it touches watched
//! bytes, with what they held before and after.
//!
//! The recorder leaves a list of what is wanted in a file: addresses, addresses of the program's own module, and blocks by
//! the function that allocates them, which become addresses when they are allocated. A hit is a marker whose name says
//! everything; `memtap watch` reads it.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};

use memref::{AccessKind, BlockKind, MarkerKind, VirtAddr};
use segment::Record;
use tracee::lock::Lock;
use tracee::text::Text;
use tracee::{maps, sys};

use crate::emit::next_order;
use crate::memory::{PAGE_VIEWED, Range, Ranges, is_viewed, page, view};
use crate::state::{PROCESS, Thread};

/// Bytes of an entry of the list: kind and bits, address, length, number, and the watchpoint's own number.
const ENTRY_BYTES: usize = 40;
/// Watchpoints that a process can have.
const MAX_WATCHES: usize = 1 << 22;
/// Sites that blocks can be watched by.
const MAX_SITES: usize = 1024;
const KIND_ADDRESS: u64 = 0;
const KIND_MODULE: u64 = 1;

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
        let at = self.as_slice().partition_point(|other| other.start <= watch.start);
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
        let at = addr.wrapping_add(index);
        let from = if page(at) & PAGE_VIEWED != 0 { view(at) } else { at };
        // SAFETY: memory that the program accesses, open to us.
        value |= u64::from(unsafe { (from as *const u8).read_volatile() }) << (8 * index);
    }
    value
}

/// What an access may overwrite.
pub(crate) fn before(addr: u64, len: u32) -> u64 {
    value(addr, u64::from(len))
}

/// An access was performed: records it where it hits.
pub(crate) fn accessed(thread: &mut Thread, ip: u64, addr: u64, len: u32, kind: AccessKind, old: u64) {
    hit(thread, ip, addr, u64::from(len), kind, Some(old));
}

/// A block operation was performed.
pub(crate) fn block(thread: &mut Thread, ip: u64, kind: BlockKind, dst: u64, src: u64, len: u64) {
    if matches!(kind, BlockKind::Copy | BlockKind::Fetch) {
        hit(thread, ip, src, len, AccessKind::Load, None);
    }
    if matches!(kind, BlockKind::Copy | BlockKind::Fill) && is_viewed(dst, len) {
        hit(thread, ip, dst, len, AccessKind::Store, None);
    }
}

/// Watches looked at for one access.
const MOST_HITS: usize = 16;

fn hit(thread: &mut Thread, ip: u64, addr: u64, len: u64, kind: AccessKind, old: Option<u64>) {
    let end = addr.saturating_add(len);
    let mut hits = [(0u32, 0u64, 0u64); MOST_HITS];
    let mut count = 0;
    LIST.lock().each(addr, end, |watch| {
        if watch.bits & bits_of(kind) != 0
            && let Some(place) = hits.get_mut(count)
        {
            *place = (watch.id & !FROM_SITE, watch.start.max(addr), watch.end.min(end));
            count += 1;
        }
    });
    for &(id, from, to) in hits.iter().take(count) {
        let bytes = (to - from).min(8);
        let new = value(from, bytes);
        let skip = from - addr;
        let mask = if bytes >= 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 };
        let mut name = Text::<128>::new();
        let _ = write!(name, "memtap-watch {id} {} {from:x} {bytes} ", kind.code());
        let _ = match old.filter(|_| skip + bytes <= 8) {
            Some(old) => write!(name, "{:x} {new:x}", old >> (8 * skip) & mask),
            None => write!(name, "- {new:x}"),
        };
        let (order, kind) = (next_order(), MarkerKind::Mark);
        thread.emit(&Record::Marker { order, ip: VirtAddr(ip), kind, name: name.as_bytes() });
    }
}
