//! Memory with two views across a fork: the child gets a separate copy.

use tracee::sys;

use crate::memory::pages::{self, TOP, VIEW};
use crate::memory::ranges::{RANGES, Range};
use crate::protect::{view_copy, views};
use crate::state::process::PROCESS;

/// Where a forked child's copy waits for the fork: another distance.
const COPY: u64 = 0x2000_0000_0000;

/// Before a fork: copies all private memory, so that the child can have its own. Others of our threads may go on: a fork
/// of a threaded program sees some state of them, as natively.
pub(crate) fn copy_for_child() -> bool {
    let ranges = RANGES.lock();
    let rw = sys::PROT_READ | sys::PROT_WRITE;
    let flags = sys::MAP_SHARED | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED;
    for range in ranges.as_slice().iter().filter(|range| !range.shared) {
        let (to, len) = (range.start ^ VIEW ^ COPY, range.end - range.start);
        // SAFETY: addresses at distance COPY from a view are used for nothing else.
        if sys::failed(unsafe { sys::mmap(to, len, rw, flags, -1, 0) }) {
            return false;
        }
        // SAFETY: just mapped; this file's alone until the child takes it.
        if !unsafe { view_copy::copy_view(range, to) } {
            return false;
        }
    }
    true
}

/// In a forked child: its copy takes the place of both views.
pub(crate) fn take_copy() {
    let ranges = RANGES.lock();
    let recording = PROCESS.is_recording();
    for range in ranges.as_slice().iter().filter(|range| !range.shared) {
        let (copy, ours, len) =
            (range.start ^ VIEW ^ COPY, pages::view(range.start), range.end - range.start);
        let fixed = sys::MREMAP_MAYMOVE | sys::MREMAP_FIXED;
        // SAFETY: replaces the parent's pages in this process by the copies made for it.
        unsafe {
            sys::mremap(copy, len, len, fixed, ours);
            sys::mremap(ours, 0, len, fixed, range.start);
        }
        views::set_rights(range);
        views::apply(range, recording);
    }
}

/// In the parent: the child has its copy.
pub(crate) fn drop_copy() {
    let ranges = RANGES.lock();
    for range in ranges.as_slice().iter().filter(|range| !range.shared) {
        // SAFETY: mapped by `copy_for_child` and used for nothing else.
        unsafe { sys::munmap(range.start ^ VIEW ^ COPY, range.end - range.start) };
    }
}

/// In a forked child that goes on without us: private memory becomes private for good, as its own forks expect.
pub(crate) fn give_back_all() {
    let mut ranges = RANGES.lock();
    let rw = sys::PROT_READ | sys::PROT_WRITE;
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED;
    for range in ranges.as_slice() {
        let len = range.end - range.start;
        let opened = Range { prot: rw, ..*range };
        views::set_rights(&opened);
        // SAFETY: this process has one thread, which is here; the content is put back before it goes on.
        unsafe {
            if !range.shared && !sys::failed(sys::mmap(range.start, len, rw, flags, -1, 0)) {
                view_copy::copy_view(&opened, range.start);
            }
            sys::mprotect(range.start, len, range.prot);
            sys::munmap(pages::view(range.start), len);
        }
    }
    ranges.remove(0, TOP);
}
