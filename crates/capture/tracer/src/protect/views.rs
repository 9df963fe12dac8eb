//! Memory with two views: the program's, whose pages are closed while recording, and ours, which
//! is never closed. Ours has the rights that the program believes it has, so what the kernel or
//! one of our functions does there for the program fails exactly where it would natively.
//!
//! The second view of address `a` is `a ^ VIEW`: one instruction, and the same distance everywhere, so memory that is contiguous for the
//! program is contiguous for us. Private memory becomes shared memory of this process alone (the kernel can't show private pages twice).
//! The visible effects of that - on fork, MADV_DONTNEED, mremap - are handled in `fork_copy`, `view_copy` and `syscall::memory`.

use buffers::Record;
use memref::{GapReason, RegionChange, RegionKind, VirtAddr};
use tracee::sys;

use crate::emit::recorder;
use crate::memory::pages::{self, TOP};
use crate::memory::ranges::{RANGES, Range, Ranges};
use crate::protect::view_copy;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::watch::{stack, watchpoints};

/// Mappings longer than this stay as they are: they are address space, not memory.
const MAX_RANGE_BYTES: u64 = 1 << 40;

const READ_WRITE: i32 = sys::PROT_READ | sys::PROT_WRITE;

/// What memory with two views holds when it gets them.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// Nothing was written to it.
    Zeros,
    /// What is there.
    Own,
    /// What our views of other memory show, which is not longer.
    Of { start: u64, end: u64 },
}

/// Sets what the program can do in a part of a range: nothing while it is traced and recording is on, else its own rights.
pub(crate) fn apply(range: &Range, recording: bool) -> isize {
    let prot = if recording && range.traced { sys::PROT_NONE } else { range.prot };
    // SAFETY: the range is the program's, and each access to closed memory is repaired by the fault handler.
    unsafe { sys::mprotect(range.start, range.end - range.start, prot) }
}

/// The rights of our view of memory that the program has these rights to. Nobody executes it.
const fn view_rights(prot: i32) -> i32 {
    if prot & READ_WRITE == 0 { prot } else { prot & !sys::PROT_EXEC }
}

/// Gives our view of a range the program's rights.
pub(crate) fn set_rights(range: &Range) -> isize {
    // SAFETY: our own view: who writes there looks at the rights before, or can live with a fault.
    unsafe { sys::mprotect(pages::view(range.start), range.end - range.start, view_rights(range.prot)) }
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

/// Gives memory that the program has just got (private or shared anonymous) a second view. `false` where that can't be done; the
/// memory is then as it was.
pub(crate) fn adopt(range: Range, content: Content) -> bool {
    let len = range.end - range.start;
    if len == 0 || range.end > TOP || len > MAX_RANGE_BYTES {
        return false;
    }
    // Nobody knows of it yet: with content it gets its rights at the end.
    let rights = if matches!(content, Content::Zeros) { view_rights(range.prot) } else { READ_WRITE };
    let flags = sys::MAP_SHARED | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
    let ours = pages::view(range.start);
    // SAFETY: NOREPLACE replaces nothing.
    let result = unsafe { sys::mmap(ours, len, rights, flags, -1, 0) };
    if sys::failed(result) || result as u64 != ours {
        return false;
    }
    // SAFETY: the caller says that the program's range is mapped; ours is, and they don't overlap. The program has no other thread yet,
    // or none that knows of this memory.
    let is_copied = unsafe {
        match content {
            Content::Zeros => true,
            Content::Own => {
                view_copy::copy_pages(range.start, ours, len);
                true
            }
            Content::Of { start, end } => view_copy::copy_views(start, end, ours),
        }
    };
    if !is_copied || rights != view_rights(range.prot) && sys::failed(set_rights(&range)) {
        // SAFETY: our own view, which nobody knows of yet.
        unsafe { sys::munmap(ours, len) };
        return false;
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

/// The stretch of memory that begins at an address: its end, at most `end`, and its range where it has two views.
fn stretch(ranges: &Ranges, at: u64, end: u64) -> (u64, Option<Range>) {
    match ranges.first_within(at, end) {
        Some(part) if part.start == at => (part.end, Some(part)),
        Some(part) => (part.start, None),
        None => (end, None),
    }
}

/// Whether memory with two views is one mapping for the program: private neighbours with equal properties are.
pub(crate) fn is_one_mapping(start: u64, end: u64) -> bool {
    let ranges = RANGES.lock();
    let Some(first) = ranges.first_within(start, end) else { return start == end };
    let (mut at, mut is_one) = (start, true);
    ranges.each_within(start, end, |part| {
        let is_more = (part.prot, part.kind, part.shared) == (first.prot, first.kind, false);
        is_one &= part.start == at && (at == start || is_more);
        at = part.end;
    });
    is_one && at == end
}

/// mprotect by the program, of any mixture of memory. Returns the system call's result.
pub(crate) fn protect(start: u64, len: u64, prot: i32) -> isize {
    let end = start.checked_add(pages::whole_pages(len)).unwrap_or(start);
    let mut ranges = RANGES.lock();
    if !pages::is_page_start(start) || ranges.first_within(start, end).is_none() {
        // SAFETY: the program's own call on its own memory.
        return unsafe { sys::mprotect(start, len, prot) };
    }
    let mut at = start;
    while at < end {
        let (until, part) = stretch(&ranges, at, end);
        let result = match part {
            Some(part) => protect_part(&mut ranges, &part, prot),
            // SAFETY: the program's own call on its own memory.
            None => unsafe { sys::mprotect(at, until - at, prot) },
        };
        if sys::failed(result) {
            // As the kernel, which leaves what comes behind as it is.
            return result;
        }
        at = until;
    }
    0
}

/// mprotect of memory with two views. Our view comes first: there the kernel says whether the program can have these rights.
fn protect_part(ranges: &mut Ranges, part: &Range, prot: i32) -> isize {
    let result = set_rights(&Range { prot, ..*part });
    if sys::failed(result) {
        return result;
    }
    // Code can't be closed, and relocated data that becomes read-only is rodata like that of the modules from start-up.
    let traced = part.traced
        && prot & sys::PROT_EXEC == 0
        && (part.kind != RegionKind::Data || prot & sys::PROT_WRITE != 0);
    let change =
        |prot: i32, traced: bool| move |range: &mut Range| (range.prot, range.traced) = (prot, traced);
    ranges.update(part.start, part.end, change(prot, traced));
    let result = apply(&Range { prot, traced, ..*part }, PROCESS.is_recording());
    if sys::failed(result) {
        // There are too many mappings: the program has the rights that it had.
        set_rights(part);
        ranges.update(part.start, part.end, change(part.prot, part.traced));
    }
    result
}

/// MADV_DONTNEED, MADV_FREE and MADV_REMOVE by the program, of any mixture of memory. Returns the system call's result.
pub(crate) fn discard(start: u64, len: u64, advice: i32) -> isize {
    let end = start.checked_add(pages::whole_pages(len)).unwrap_or(start);
    let ranges = RANGES.lock();
    if ranges.first_within(start, end).is_none() {
        // SAFETY: the program's own call on its own memory.
        return unsafe { madvise(start, len, advice) };
    }
    let mut at = start;
    let mut result = 0;
    while at < end {
        let (until, part) = stretch(&ranges, at, end);
        let of_part = match part {
            Some(part) => discard_part(&part, advice),
            // SAFETY: the program's own call on its own memory.
            None => unsafe { madvise(at, until - at, advice) },
        };
        if sys::failed(of_part) {
            result = of_part;
            // Where nothing is mapped the kernel goes on, and says so at the end.
            if result != -(sys::ENOMEM as isize) {
                break;
            }
        }
        at = until;
    }
    result
}

/// Of private memory the pages go, so that it reads as zeros; of shared memory only where others are to lose them, too.
fn discard_part(part: &Range, advice: i32) -> isize {
    match (part.shared, advice) {
        (false, libc::MADV_DONTNEED | libc::MADV_FREE) | (true, libc::MADV_REMOVE) => remove(part),
        (true, libc::MADV_DONTNEED) => 0,
        _ => -(sys::EINVAL as isize),
    }
}

/// Frees the pages that our view of a range shows, whatever the program may do with it.
fn remove(range: &Range) -> isize {
    let (view, len) = (pages::view(range.start), range.end - range.start);
    // SAFETY: frees what the program asked to be freed.
    let advise = || unsafe { madvise(view, len, libc::MADV_REMOVE) };
    let result = advise();
    if result != -(libc::EACCES as isize) {
        return result;
    }
    // Older kernels want that it can be written.
    set_rights(&Range { prot: READ_WRITE, ..*range });
    let result = advise();
    set_rights(range);
    result
}

/// madvise.
///
/// # Safety
/// Who uses the memory must be able to live with what becomes of it.
unsafe fn madvise(start: u64, len: u64, advice: i32) -> isize {
    let args = [start as usize, len as usize, advice as usize, 0, 0, 0];
    // SAFETY: the caller's promise.
    unsafe { sys::syscall(libc::SYS_madvise as usize, args) }
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
    let content = if keep { Content::Own } else { Content::Zeros };
    if wanted && !adopt(range, content) {
        range.traced = false;
        if range.end - range.start <= MAX_RANGE_BYTES {
            thread.emit_gap(GapReason::UntracedMapping, 1, range.start, name);
        }
    }
    tell(thread, RegionChange::Map, &range, file_offset, name);
}
