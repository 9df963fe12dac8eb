//! Memory with two views: the program's, whose pages are closed while recording, and ours, which is always open.
//!
//! The second view of address `a` is `a ^ VIEW`: one instruction, the same distance everywhere, so that what is contiguous
//! for the program is contiguous for us. Private memory becomes shared memory of this process alone (the kernel can't show
//! private pages twice); what that would change for the program - fork, MADV_DONTNEED, mremap - is done by hand here and
//! in `process.rs`. A byte for each page says what the page is, so that a handler looks up an address with one load.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use buffers::Record;
use memref::{GapReason, RegionChange, RegionKind, VirtAddr};
use tracee::sys;

use crate::emit::next_order;
use crate::state::{PROCESS, Thread};
use crate::{stack, watchpoints};

/// The distance of the two views. Programs live at 0x0000..., 0x55.. and 0x7f..; their views at 0x50.., 0x05.. and 0x2f...
pub(crate) const VIEW: u64 = 0x5000_0000_0000;
/// Where a forked child's copy waits for the fork: another distance.
const COPY: u64 = 0x2000_0000_0000;
/// Behind the last address of a program.
const TOP: u64 = 1 << 47;
/// Where the bytes for the pages are.
const PAGES_AT: u64 = 0x1100_0000_0000;
const PAGES_BYTES: u64 = TOP >> 12;
/// Ranges that a process can have; the kernel's own limit of mappings is 65,530.
const MAX_RANGES: usize = 65_536;
/// Mappings longer than this stay as they are: they are address space, not memory.
const MAX_RANGE_BYTES: u64 = 1 << 40;

/// The page has a second view.
pub(crate) const PAGE_VIEWED: u8 = 1;
/// Accesses to the page are recorded.
pub(crate) const PAGE_TRACED: u8 = 2;
/// The program may read it.
pub(crate) const PAGE_READ: u8 = 4;
/// The program may write it.
pub(crate) const PAGE_WRITE: u8 = 8;

/// The bytes for the pages, or null.
static PAGES: AtomicUsize = AtomicUsize::new(0);

/// A length in whole pages; zero where there are none so long: the kernel refuses the call.
pub(crate) fn whole_pages(len: u64) -> u64 {
    len.checked_next_multiple_of(4096).unwrap_or(0)
}

/// What page an address is in. Zero: one that we leave alone.
#[inline]
pub(crate) fn page(addr: u64) -> u8 {
    let pages = PAGES.load(Ordering::Relaxed) as *const AtomicU8;
    if addr >= TOP || pages.is_null() {
        return 0;
    }
    // SAFETY: the table has a byte for each page below TOP and is never unmapped.
    unsafe { (*pages.add((addr >> 12) as usize)).load(Ordering::Relaxed) }
}

/// Our view of an address in a viewed page.
#[inline]
pub(crate) const fn view(addr: u64) -> u64 {
    addr ^ VIEW
}

/// Whether all of a range has a second view.
pub(crate) fn is_viewed(addr: u64, len: u64) -> bool {
    let Some(last) = addr.checked_add(len.max(1) - 1) else { return false };
    (addr >> 12..=last >> 12).all(|number| page(number << 12) & PAGE_VIEWED != 0)
}

/// Where `addr` can be read or written now, whatever is closed: itself, or its view.
#[inline]
pub(crate) fn open_address(addr: u64) -> u64 {
    if page(addr) & PAGE_VIEWED != 0 { view(addr) } else { addr }
}

/// One stretch of memory with two views and equal properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The rights that the program thinks it has.
    pub(crate) prot: i32,
    pub(crate) kind: RegionKind,
    pub(crate) traced: bool,
    /// Shared with forked children, as the program asked for it.
    pub(crate) shared: bool,
}

/// The ranges, in the order of addresses, in memory of our own.
pub(crate) struct Ranges {
    list: *mut Range,
    len: usize,
}

// SAFETY: the list is memory of this process that only the holder of the lock uses.
unsafe impl Send for Ranges {}

impl Ranges {
    pub(crate) const fn new() -> Self {
        Self { list: core::ptr::null_mut(), len: 0 }
    }

    pub(crate) fn as_slice(&self) -> &[Range] {
        if self.list.is_null() {
            return &[];
        }
        // SAFETY: `len` entries were written, see `insert`.
        unsafe { core::slice::from_raw_parts(self.list, self.len) }
    }

    /// Makes room for the list and for the pages' bytes, once.
    pub(crate) fn prepare(&mut self) -> bool {
        if !self.list.is_null() {
            return true;
        }
        let rw = sys::PROT_READ | sys::PROT_WRITE;
        let Some(list) = sys::map_anonymous((MAX_RANGES * size_of::<Range>()) as u64, rw) else {
            return false;
        };
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
        // SAFETY: NOREPLACE replaces nothing.
        let pages = unsafe { sys::mmap(PAGES_AT, PAGES_BYTES, rw, flags, -1, 0) };
        if sys::failed(pages) {
            return false;
        }
        self.list = list.cast();
        PAGES.store(pages as usize, Ordering::Release);
        true
    }

    fn position(&self, addr: u64) -> usize {
        self.as_slice().partition_point(|range| range.end <= addr)
    }

    /// The range that holds an address.
    pub(crate) fn find(&self, addr: u64) -> Option<Range> {
        self.as_slice().get(self.position(addr)).copied().filter(|range| range.start <= addr)
    }

    /// The parts of ranges between two addresses, cut to them, one after the other. `each` gets the part.
    pub(crate) fn each_within(&self, start: u64, end: u64, mut each: impl FnMut(Range)) {
        for range in self.as_slice().get(self.position(start)..).unwrap_or(&[]) {
            if range.start >= end {
                return;
            }
            each(Range { start: range.start.max(start), end: range.end.min(end), ..*range });
        }
    }

    /// Enters a range; nothing may be known of its addresses. `false` where the list is full.
    fn insert(&mut self, range: Range) -> bool {
        if self.list.is_null() || self.len >= MAX_RANGES {
            return false;
        }
        let at = self.position(range.start);
        // SAFETY: `at <= len < MAX_RANGES`, so both the moved entries and the new one lie inside the list's memory.
        unsafe {
            let place = self.list.add(at);
            core::ptr::copy(place, place.add(1), self.len - at);
            place.write(range);
        }
        self.len += 1;
        Self::mark(&range);
        true
    }

    /// Forgets all between two addresses, cutting ranges that reach over an end.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        self.each_within(start, end, |part| Self::write_pages(part.start, part.end, 0));
        self.cut(start, end);
    }

    /// Takes all between two addresses out of the list, but leaves what the pages' bytes say: a handler in another thread
    /// may be looking at them.
    fn cut(&mut self, start: u64, end: u64) {
        let mut at = self.position(start);
        while let Some(range) = self.as_slice().get(at).copied().filter(|range| range.start < end) {
            // SAFETY: `at < len`: the entry exists, and the ones behind it move one place down.
            unsafe {
                let place = self.list.add(at);
                core::ptr::copy(place.add(1), place, self.len - at - 1);
            }
            self.len -= 1;
            if range.start < start {
                self.insert(Range { end: start, ..range });
                at += 1;
            }
            if range.end > end {
                self.insert(Range { start: end, ..range });
            }
        }
    }

    /// Changes all ranges between two addresses by `change`.
    pub(crate) fn update(&mut self, start: u64, end: u64, change: impl Fn(&mut Range)) {
        let mut at = start;
        while at < end {
            let index = self.position(at);
            let Some(range) = self.as_slice().get(index).copied().filter(|range| range.start < end) else {
                return;
            };
            let mut part = Range { start: range.start.max(start), end: range.end.min(end), ..range };
            at = part.end;
            let before = part;
            change(&mut part);
            if part != before {
                self.cut(part.start, part.end);
                self.insert(part);
            }
        }
    }

    fn mark(range: &Range) {
        let mut flags = PAGE_VIEWED;
        if range.traced {
            flags |= PAGE_TRACED;
        }
        if range.prot & sys::PROT_READ != 0 {
            flags |= PAGE_READ;
        }
        if range.prot & sys::PROT_WRITE != 0 {
            flags |= PAGE_WRITE | PAGE_READ;
        }
        Self::write_pages(range.start, range.end, flags);
    }

    fn write_pages(start: u64, end: u64, flags: u8) {
        let pages = PAGES.load(Ordering::Relaxed) as *const AtomicU8;
        if pages.is_null() || end > TOP {
            return;
        }
        for number in start >> 12..end >> 12 {
            // SAFETY: the table has a byte for each page below TOP.
            unsafe { (*pages.add(number as usize)).store(flags, Ordering::Relaxed) };
        }
    }
}

/// Sets what the program can do in a part of a range: nothing while it is traced and recording is on, else its own rights.
fn apply(range: &Range, recording: bool) -> bool {
    let prot = if recording && range.traced { sys::PROT_NONE } else { range.prot };
    // SAFETY: the range is the program's, and each access to closed memory is repaired by the fault handler.
    !sys::failed(unsafe { sys::mprotect(range.start, range.end - range.start, prot) })
}

/// Removes or gives back the rights of all traced memory.
pub(crate) fn close_all(close: bool) {
    let ranges = PROCESS.ranges.lock();
    for range in ranges.as_slice() {
        if range.traced {
            apply(range, close);
        }
    }
}

/// Gives memory that the program has just got (private or shared anonymous, nothing written to it unless `keep`) a second
/// view. `false` where that can't be done; the memory is then as it was.
pub(crate) fn adopt(range: Range, keep: bool) -> bool {
    let len = range.end - range.start;
    if len == 0 || range.end > TOP || len > MAX_RANGE_BYTES {
        return false;
    }
    let rw = sys::PROT_READ | sys::PROT_WRITE;
    let flags = sys::MAP_SHARED | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
    let ours = view(range.start);
    // SAFETY: NOREPLACE replaces nothing.
    let result = unsafe { sys::mmap(ours, len, rw, flags, -1, 0) };
    if sys::failed(result) || result as u64 != ours {
        return false;
    }
    if keep {
        // SAFETY: the caller says that the program's range is mapped; ours is, and they don't overlap. The program has
        // no other thread yet, or none that knows of this memory.
        unsafe { copy_pages(range.start, ours, len) };
    }
    // SAFETY: an old length of zero makes a second mapping of the same shared pages and leaves the first; it replaces the
    // program's range, whose contents were copied.
    let dup = unsafe { sys::mremap(ours, 0, len, sys::MREMAP_MAYMOVE | sys::MREMAP_FIXED, range.start) };
    if sys::failed(dup) {
        // SAFETY: our own view, which nobody knows of yet.
        unsafe { sys::munmap(ours, len) };
        return false;
    }
    let mut ranges = PROCESS.ranges.lock();
    let entered = ranges.insert(range);
    watchpoints::adopted(&mut ranges, &range);
    let recording = entered && PROCESS.is_recording();
    if entered {
        ranges.each_within(range.start, range.end, |part| {
            apply(&part, recording);
        });
    } else {
        apply(&range, false);
    }
    entered
}

/// Copies memory page by page, leaving out pages of zeros: they stay unallocated.
///
/// # Safety
/// Both ranges must be mapped (`from` readable, or it is skipped), page-aligned and apart.
pub(crate) unsafe fn copy_pages(from: u64, to: u64, len: u64) {
    for offset in (0..len).step_by(4096) {
        let (source, target) = ((from + offset) as *const u64, (to + offset) as *mut u64);
        // SAFETY: the caller vouches for both pages.
        unsafe {
            if (0..512).any(|index| source.add(index).read_volatile() != 0) {
                core::ptr::copy_nonoverlapping(source, target, 512);
            }
        }
    }
}

/// Drops our view of what the program unmaps or replaces.
pub(crate) fn drop_views(start: u64, end: u64) {
    if watchpoints::is_active() {
        stack::forget(start, end);
    }
    let mut ranges = PROCESS.ranges.lock();
    ranges.each_within(start, end, |part| {
        // SAFETY: our own view; the page table of bytes is cleared right after, under the same lock.
        unsafe { sys::munmap(view(part.start), part.end - part.start) };
    });
    ranges.remove(start, end);
}

/// mprotect by the program, of any mixture of memory. Returns the system call's result.
pub(crate) fn protect(start: u64, len: u64, prot: i32) -> isize {
    let end = start.saturating_add(whole_pages(len));
    let mut ranges = PROCESS.ranges.lock();
    let mut any = false;
    ranges.each_within(start, end, |_| any = true);
    if !any {
        // SAFETY: the program's own call on its own memory.
        return unsafe { sys::mprotect(start, len, prot) };
    }
    if start & 4095 != 0 {
        return -(sys::EINVAL as isize);
    }
    let recording = PROCESS.is_recording();
    // Code can't be closed, and relocated data that becomes read-only is rodata like that of the modules from start-up.
    ranges.update(start, end, |range| {
        range.prot = prot;
        range.traced &=
            prot & sys::PROT_EXEC == 0 && !(range.kind == RegionKind::Data && prot & sys::PROT_WRITE == 0);
    });
    // The gaps between ranges get the call itself; the ranges get what the tracer needs.
    let mut result = 0;
    let mut at = start;
    let mut plain = |from: u64, to: u64| {
        if from < to {
            // SAFETY: the program's own call on its own memory.
            let part = unsafe { sys::mprotect(from, to - from, prot) };
            if sys::failed(part) {
                result = part;
            }
        }
    };
    ranges.each_within(start, end, |part| {
        plain(at, part.start);
        apply(&part, recording);
        at = part.end;
    });
    plain(at, end);
    result
}

/// MADV_DONTNEED and MADV_FREE by the program: private memory then reads as zeros, shared memory has to be punched.
pub(crate) fn discard(start: u64, len: u64, advice: usize) -> isize {
    if whole_pages(len) < len {
        // SAFETY: the kernel refuses it.
        return unsafe {
            sys::syscall(libc::SYS_madvise as usize, [start as usize, len as usize, advice, 0, 0, 0])
        };
    }
    let end = start.saturating_add(whole_pages(len));
    let ranges = PROCESS.ranges.lock();
    let mut at = start;
    let mut result = 0;
    let mut plain = |from: u64, to: u64| {
        if from < to {
            // SAFETY: the program's own call on its own memory.
            let part = unsafe {
                sys::syscall(
                    libc::SYS_madvise as usize,
                    [from as usize, (to - from) as usize, advice, 0, 0, 0],
                )
            };
            if sys::failed(part) {
                result = part;
            }
        }
    };
    ranges.each_within(start, end, |part| {
        plain(at, part.start);
        if !part.shared {
            let bytes = (part.end - part.start) as usize;
            // SAFETY: frees the pages behind our view, as the program asked for its own.
            unsafe {
                sys::syscall(
                    libc::SYS_madvise as usize,
                    [view(part.start) as usize, bytes, libc::MADV_REMOVE as usize, 0, 0, 0],
                );
            }
        }
        at = part.end;
    });
    plain(at, end);
    result
}

/// Before a fork: copies all private memory, so that the child can have its own. Others of our threads may go on: a fork
/// of a threaded program sees some state of them, as natively.
pub(crate) fn copy_for_child() -> bool {
    let ranges = PROCESS.ranges.lock();
    let rw = sys::PROT_READ | sys::PROT_WRITE;
    let flags = sys::MAP_SHARED | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED;
    for range in ranges.as_slice().iter().filter(|range| !range.shared) {
        let (from, to, len) = (view(range.start), range.start ^ VIEW ^ COPY, range.end - range.start);
        // SAFETY: addresses at distance COPY from a view are used for nothing else.
        if sys::failed(unsafe { sys::mmap(to, len, rw, flags, -1, 0) }) {
            return false;
        }
        let mut resident = [0u8; 4096];
        for chunk in (0..len).step_by(4096 * resident.len()) {
            let bytes = (len - chunk).min(4096 * resident.len() as u64);
            // SAFETY: the kernel writes a byte for each page of our view into the array.
            let asked = unsafe {
                let args = [(from + chunk) as usize, bytes as usize, resident.as_mut_ptr() as usize, 0, 0, 0];
                sys::syscall(libc::SYS_mincore as usize, args)
            };
            for page in 0..bytes / 4096 {
                if sys::failed(asked) || resident.get(page as usize).is_some_and(|byte| byte & 1 != 0) {
                    let offset = chunk + page * 4096;
                    // SAFETY: both mappings span the page.
                    unsafe { copy_pages(from + offset, to + offset, 4096) };
                }
            }
        }
    }
    true
}

/// In a forked child: its copy takes the place of both views.
pub(crate) fn take_copy() {
    let ranges = PROCESS.ranges.lock();
    let recording = PROCESS.is_recording();
    for range in ranges.as_slice().iter().filter(|range| !range.shared) {
        let (copy, ours, len) = (range.start ^ VIEW ^ COPY, view(range.start), range.end - range.start);
        let fixed = sys::MREMAP_MAYMOVE | sys::MREMAP_FIXED;
        // SAFETY: replaces the parent's pages in this process by the copies made for it.
        unsafe {
            sys::mremap(copy, len, len, fixed, ours);
            sys::mremap(ours, 0, len, fixed, range.start);
        }
        apply(range, recording);
    }
}

/// In the parent: the child has its copy.
pub(crate) fn drop_copy() {
    let ranges = PROCESS.ranges.lock();
    for range in ranges.as_slice().iter().filter(|range| !range.shared) {
        // SAFETY: mapped by `copy_for_child` and used for nothing else.
        unsafe { sys::munmap(range.start ^ VIEW ^ COPY, range.end - range.start) };
    }
}

/// In a forked child that goes on without us: private memory becomes private for good, as its own forks expect.
pub(crate) fn give_back_all() {
    let mut ranges = PROCESS.ranges.lock();
    let rw = sys::PROT_READ | sys::PROT_WRITE;
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED;
    for range in ranges.as_slice() {
        let len = range.end - range.start;
        // SAFETY: this process has one thread, which is here; the content is put back before it goes on.
        unsafe {
            if !range.shared && !sys::failed(sys::mmap(range.start, len, rw, flags, -1, 0)) {
                copy_pages(view(range.start), range.start, len);
            }
            sys::mprotect(range.start, len, range.prot);
            sys::munmap(view(range.start), len);
        }
    }
    ranges.remove(0, TOP);
}

/// Tells the recorder of a region.
pub(crate) fn tell(thread: &mut Thread, change: RegionChange, range: &Range, file_offset: u64, name: &[u8]) {
    let rights = [(sys::PROT_READ, 1), (sys::PROT_WRITE, 2), (sys::PROT_EXEC, 4)]
        .iter()
        .fold(0, |rights, (prot, bit)| if range.prot & prot != 0 { rights | bit } else { rights });
    thread.emit(&Record::Region {
        order: next_order(),
        change,
        kind: range.kind,
        rights,
        traced: range.traced,
        start: VirtAddr(range.start),
        len: range.end - range.start,
        file_offset,
        name,
    });
}

/// Gives new memory a second view where its kind is traced, and tells the recorder of it.
pub(crate) fn follow(thread: &mut Thread, mut range: Range, keep: bool, file_offset: u64, name: &[u8]) {
    if PROCESS.settings().translate {
        // All memory is seen where it is accessed.
        range.traced = true;
        tell(thread, RegionChange::Map, &range, file_offset, name);
        return;
    }
    let wanted = PROCESS.settings().regions & 1 << range.kind.code() != 0 && range.traced;
    range.traced = wanted;
    if wanted && !adopt(range, keep) {
        range.traced = false;
        if range.end - range.start <= MAX_RANGE_BYTES {
            thread.emit_gap(GapReason::UntracedMapping, 1, range.start, name);
        }
    }
    tell(thread, RegionChange::Map, &range, file_offset, name);
}
