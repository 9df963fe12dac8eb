//! Memory with two views: the program's, whose pages are closed while recording, and ours, which is always open.
//!
//! The second view of address `a` is `a ^ VIEW`: one instruction, the same distance everywhere, so that what is contiguous
//! for the program is contiguous for us. Private memory becomes shared memory of this process alone (the kernel can't show
//! private pages twice); what that would change for the program - fork, MADV_DONTNEED, mremap - is done by hand here, in
//! `fork_copy` and in `syscall::memory`.

use buffers::Record;
use memref::{GapReason, RegionChange, RegionKind, VirtAddr};
use tracee::sys;

use crate::protect::pages::{self, PAGE_BYTES, TOP};
use crate::protect::ranges::{RANGES, Range};
use crate::recorder;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::watch::{stack, watchpoints};

/// Mappings longer than this stay as they are: they are address space, not memory.
const MAX_RANGE_BYTES: u64 = 1 << 40;

/// Sets what the program can do in a part of a range: nothing while it is traced and recording is on, else its own rights.
pub(crate) fn apply(range: &Range, recording: bool) -> bool {
    let prot = if recording && range.traced { sys::PROT_NONE } else { range.prot };
    // SAFETY: the range is the program's, and each access to closed memory is repaired by the fault handler.
    !sys::failed(unsafe { sys::mprotect(range.start, range.end - range.start, prot) })
}

/// Removes or gives back the rights of all traced memory.
pub(crate) fn close_all(close: bool) {
    let ranges = RANGES.lock();
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
    let ours = pages::view(range.start);
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
    let mut ranges = RANGES.lock();
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

/// Words of a page.
const WORDS_OF_PAGE: usize = PAGE_BYTES as usize / size_of::<u64>();

/// Copies memory page by page, leaving out pages of zeros: they stay unallocated.
///
/// # Safety
/// Both ranges must be mapped (`from` readable, or it is skipped), page-aligned and apart.
pub(crate) unsafe fn copy_pages(from: u64, to: u64, len: u64) {
    for offset in (0..len).step_by(PAGE_BYTES as usize) {
        let (source, target) = ((from + offset) as *const u64, (to + offset) as *mut u64);
        // SAFETY: the caller vouches for both pages.
        unsafe {
            if (0..WORDS_OF_PAGE).any(|index| source.add(index).read_volatile() != 0) {
                core::ptr::copy_nonoverlapping(source, target, WORDS_OF_PAGE);
            }
        }
    }
}

/// Drops our view of what the program unmaps or replaces.
pub(crate) fn drop_views(start: u64, end: u64) {
    if PROCESS.is_watched() {
        stack::forget(start, end);
    }
    let mut ranges = RANGES.lock();
    ranges.each_within(start, end, |part| {
        // SAFETY: our own view; the page table of bytes is cleared right after, under the same lock.
        unsafe { sys::munmap(pages::view(part.start), part.end - part.start) };
    });
    ranges.remove(start, end);
}

/// mprotect by the program, of any mixture of memory. Returns the system call's result.
pub(crate) fn protect(start: u64, len: u64, prot: i32) -> isize {
    let end = start.saturating_add(pages::whole_pages(len));
    let mut ranges = RANGES.lock();
    let mut any = false;
    ranges.each_within(start, end, |_| any = true);
    if !any {
        // SAFETY: the program's own call on its own memory.
        return unsafe { sys::mprotect(start, len, prot) };
    }
    if !pages::is_page_start(start) {
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
    if pages::whole_pages(len) < len {
        // SAFETY: the kernel refuses it.
        return unsafe {
            sys::syscall(libc::SYS_madvise as usize, [start as usize, len as usize, advice, 0, 0, 0])
        };
    }
    let end = start.saturating_add(pages::whole_pages(len));
    let ranges = RANGES.lock();
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
            // SAFETY: frees the pages that our view shows, as the program asked for its own.
            unsafe {
                sys::syscall(
                    libc::SYS_madvise as usize,
                    [pages::view(part.start) as usize, bytes, libc::MADV_REMOVE as usize, 0, 0, 0],
                );
            }
        }
        at = part.end;
    });
    plain(at, end);
    result
}

/// Tells the recorder of a region.
pub(crate) fn tell(
    thread: &mut TracedThread,
    change: RegionChange,
    range: &Range,
    file_offset: u64,
    name: &[u8],
) {
    tell_as_of(recorder::next_order(), thread, change, range, file_offset, name);
}

/// Tells the recorder of a region that changed at an order drawn before: memory that goes is another thread's at once.
pub(crate) fn tell_as_of(
    order: u64,
    thread: &mut TracedThread,
    change: RegionChange,
    range: &Range,
    file_offset: u64,
    name: &[u8],
) {
    let rights = [(sys::PROT_READ, 1), (sys::PROT_WRITE, 2), (sys::PROT_EXEC, 4)]
        .iter()
        .fold(0, |rights, (prot, bit)| if range.prot & prot != 0 { rights | bit } else { rights });
    thread.emit(&Record::Region {
        order,
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
pub(crate) fn follow(thread: &mut TracedThread, mut range: Range, keep: bool, file_offset: u64, name: &[u8]) {
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
