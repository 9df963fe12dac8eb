//! Live watchpoints. Only pages that hold one are closed, or, where the program is translated,
//! only accesses to marked lines leave the cache. An access there becomes a record only if it
//! touches watched bytes, with their content before and after and the stack that led there.
//!
//! The recorder leaves a list of what is watched in a file: addresses, ranges of modules, thread-local variables, and blocks by
//! the function that allocates them, which become addresses when they are allocated. Code that is about to access memory notes
//! which watched bytes it touches (`state::touched`), and reports them when it is done. A hit is a record that the recorder reads
//! at once. If the program is to stop at a hit, it stops itself right after it, and resumes when it is continued from outside.

use core::sync::atomic::{AtomicBool, Ordering};

use buffers::list::{ABSOLUTE, ENTRY_BYTES, KIND_ADDRESS, KIND_CHOICES, KIND_LOCAL, KIND_MODULE, KIND_SITE};
use code_cache::Marks;
use tracee::lock::Guard;
use tracee::{maps, sys, tls};

use crate::memory::pages::{self, PAGE_BYTES};
use crate::memory::ranges::{RANGES, Range, Ranges};
use crate::state::process::PROCESS;
use crate::watch::hits::{CHOICES, CHOSEN_THREAD, CHOSEN_VALUE};
use crate::watch::list::{FROM_SITE, LIST, List, Local, MAX_SITES, MAX_WATCHES, Watch, WatchedSite};
use crate::watch::{locals, stack};

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
    let sites = sys::map_anonymous((MAX_SITES * size_of::<WatchedSite>()) as u64, rw);
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
                let site = WatchedSite { start, end, number: word(3), seen: 0, id, bits };
                // SAFETY: below the number of sites that there is room for.
                unsafe { list.sites.add(list.site_count).write(site) };
                list.site_count += 1;
            }
        }
    }
    // SAFETY: mapped by `read`; nothing refers to it any more.
    unsafe { sys::munmap(bytes as u64, (len as u64).next_multiple_of(PAGE_BYTES)) };
    PROCESS.watched.store(true, Ordering::Release);
    if PROCESS.settings().translate {
        return;
    }
    let mut ranges = RANGES.lock();
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
    let memory = unsafe {
        sys::mmap(0, (len as u64).next_multiple_of(PAGE_BYTES), sys::PROT_READ, private, file.0, 0)
    };
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
        let (start, end) = (pages::start_of_page(watch.start), pages::end_of_page(watch.end));
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
    if PROCESS.is_watched() {
        ranges.update(range.start, range.end, |range| range.traced = false);
        mark(ranges, range.start, range.end);
    }
}

/// A block was allocated by a call at `ip`.
pub(crate) fn allocated(ip: u64, addr: u64, len: u64) {
    if !PROCESS.is_watched() || len == 0 {
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
        let (start, end) = (pages::start_of_page(addr), pages::end_of_page(addr.saturating_add(len)));
        let recording = PROCESS.is_recording();
        let mut ranges = RANGES.lock();
        ranges.update(start, end, |range| range.traced = true);
        if recording {
            ranges.each_within(start, end, |part| {
                // SAFETY: each access to closed memory is repaired by the fault handler.
                unsafe { sys::mprotect(part.start, part.end - part.start, sys::PROT_NONE) };
            });
        }
    }
}

/// A block was released.
pub(crate) fn released(addr: u64) {
    if !PROCESS.is_watched() {
        return;
    }
    let mut list = LIST.lock();
    if let Some(end) = list.remove_found(addr, |watch| watch.id & FROM_SITE != 0) {
        list.unmark(addr, end);
    }
}

/// A thread begins, or has another base of fs. Returns whether its thread-local variables are watched from now on.
pub(crate) fn begin_locals(base: u64) -> bool {
    PROCESS.is_watched() && LIST.lock().insert_locals(base)
}

/// A thread ends whose thread-local variables are watched.
pub(crate) fn end_locals(base: u64) {
    LIST.lock().remove_locals(base);
}

/// What [`hold`] holds.
pub(crate) struct HeldWatches(
    #[allow(dead_code)] Guard<'static, List>,
    #[allow(dead_code)] stack::HeldModules,
);

/// Held during a fork: no other thread of ours is in the middle of a change.
pub(crate) fn hold() -> HeldWatches {
    HeldWatches(LIST.lock(), stack::hold())
}
