//! malloc and its relatives over one real-time heap, for LD_PRELOAD.
//!
//! `MEMTAP_RTMALLOC_BYTES` sets the size of the arena (64 GiB of address space otherwise), `MEMTAP_RTMALLOC_PREFAULT=1` makes
//! all of it present from the start. Without prefault a helper thread gives released pages back, unless
//! `MEMTAP_RTMALLOC_HELPER=0`; a forked child has none. What malloc(3) calls undefined -
//! freeing twice, freeing what is no block, a tag written over - ends the program with one line, as the C library does.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void};
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};

use rtvm::heap::RawLock;
use rtvm::{Error, RtHeap};
use rtvm_alloc::{Arena, Heap};

/// Address space that the arena takes where nothing else is said; pages come when they are touched.
const ARENA_BYTES: usize = 64 << 30;
const PAGE_BYTES: usize = 4096;

/// The heap, and what makes it once.
struct ProcessHeap {
    /// Written by `start` alone, before anyone can read it.
    heap: UnsafeCell<MaybeUninit<Heap>>,
    once: UnsafeCell<libc::pthread_once_t>,
}

// SAFETY: pthread_once orders the one write before every read, and is made for several threads.
unsafe impl Sync for ProcessHeap {}

static SLOT: ProcessHeap = ProcessHeap {
    heap: UnsafeCell::new(MaybeUninit::uninit()),
    once: UnsafeCell::new(libc::PTHREAD_ONCE_INIT),
};

/// A line without an allocation.
struct Line {
    bytes: [u8; 200],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes().take(self.bytes.len() - self.len) {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// Says why, and ends the program.
fn die(what: &str, error: &Error) -> ! {
    let mut line = Line { bytes: [0; 200], len: 0 };
    // A line that is too long is cut.
    let _ = writeln!(line, "memtap rtmalloc: {what}: {error}");
    // SAFETY: writes our own bytes; abort does not return.
    unsafe {
        libc::write(2, line.bytes.as_ptr().cast(), line.len);
        libc::abort()
    }
}

/// The number in an environment variable.
fn number(name: &std::ffi::CStr) -> Option<usize> {
    // SAFETY: a C string; the environment is not changed while the first allocation runs, as everywhere in C.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a C string.
    unsafe { std::ffi::CStr::from_ptr(value) }.to_str().ok()?.parse().ok()
}

extern "C" fn start() {
    let bytes = number(c"MEMTAP_RTMALLOC_BYTES").unwrap_or(ARENA_BYTES);
    let prefault = number(c"MEMTAP_RTMALLOC_PREFAULT") == Some(1);
    // SAFETY: pthread_once lets one thread in, and others wait until it is done.
    let heap = unsafe { (*SLOT.heap.get()).write(Heap::new()) };
    // SAFETY: nobody else knows it yet, and a static does not move.
    if let Err(error) = unsafe { heap.map(Arena { bytes, prefault }) } {
        die("no arena (MEMTAP_RTMALLOC_BYTES sets its size)", &error);
    }
    // SAFETY: registers our own functions.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
}

fn heap() -> &'static Heap {
    // SAFETY: pthread_once orders `start` before its return, in every thread.
    unsafe {
        libc::pthread_once(SLOT.once.get(), start);
        (*SLOT.heap.get()).assume_init_ref()
    }
}

extern "C" fn before_fork() {
    heap().lock().lock();
}

extern "C" fn after_fork() {
    // SAFETY: taken by `before_fork`, in this thread.
    unsafe { heap().lock().unlock() };
}

/// The child has one thread, which holds the lock under the parent's thread number, and no helper: most children start
/// another program at once. What the parent's helper had taken out at that moment stays in use.
extern "C" fn in_child() {
    // SAFETY: there is no other thread.
    unsafe { heap().lock().inherit() };
}

/// Runs when the library is loaded.
extern "C" fn load() {
    let heap = heap();
    if number(c"MEMTAP_RTMALLOC_PREFAULT") != Some(1) && number(c"MEMTAP_RTMALLOC_HELPER") != Some(0) {
        // Not in `start`: making a thread allocates.
        // SAFETY: a static that never ends. Without helper, the heap just keeps its pages.
        let _ = unsafe { heap.start_helper() };
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

fn set_errno(code: c_int) {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = code };
}

/// A block, or null with errno.
fn allocate(what: &str, call: impl FnOnce(&mut RtHeap) -> Result<NonNull<u8>, Error>) -> *mut c_void {
    match heap().with(call) {
        Ok(block) => block.as_ptr().cast(),
        Err(Error::OutOfAddressSpace { .. }) => {
            set_errno(libc::ENOMEM);
            null_mut()
        }
        Err(Error::BadAlignment { .. }) => {
            set_errno(libc::EINVAL);
            null_mut()
        }
        Err(error) => die(what, &error),
    }
}

/// malloc(3)
#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    allocate("malloc", |heap| heap.malloc(bytes))
}

/// calloc(3)
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    allocate("calloc", |heap| heap.calloc(count, size))
}

/// free(3)
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return };
    // SAFETY: given up by the caller.
    if let Err(error) = heap().with(|heap| unsafe { heap.free(block) }) {
        die("free", &error);
    }
}

/// realloc(3)
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    let Some(old) = NonNull::new(block.cast::<u8>()) else { return malloc(bytes) };
    if bytes == 0 {
        // SAFETY: given up by the caller.
        unsafe { free(block) };
        return null_mut();
    }
    // SAFETY: as above, where it succeeds.
    allocate("realloc", |heap| unsafe { heap.realloc(old, bytes) })
}

/// reallocarray(3)
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else {
        set_errno(libc::ENOMEM);
        return null_mut();
    };
    // SAFETY: says the caller.
    unsafe { realloc(block, bytes) }
}

/// memalign(3)
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    allocate("memalign", |heap| heap.memalign(align, bytes))
}

/// aligned_alloc(3)
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    memalign(align, bytes)
}

/// posix_memalign(3)
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut c_void>() {
        return libc::EINVAL;
    }
    match heap().with(|heap| heap.memalign(align, bytes)) {
        Ok(block) => {
            // SAFETY: a place of the caller's.
            unsafe { out.write(block.as_ptr().cast()) };
            0
        }
        Err(Error::BadAlignment { .. }) => libc::EINVAL,
        Err(Error::OutOfAddressSpace { .. }) => libc::ENOMEM,
        Err(error) => die("posix_memalign", &error),
    }
}

/// valloc(3)
#[unsafe(no_mangle)]
pub extern "C" fn valloc(bytes: usize) -> *mut c_void {
    memalign(PAGE_BYTES, bytes)
}

/// pvalloc(3)
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    match bytes.checked_next_multiple_of(PAGE_BYTES) {
        Some(bytes) => memalign(PAGE_BYTES, bytes),
        None => {
            set_errno(libc::ENOMEM);
            null_mut()
        }
    }
}

/// malloc_usable_size(3)
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return 0 };
    match heap().with(|heap| heap.usable(block)) {
        Ok(bytes) => bytes,
        Err(error) => die("malloc_usable_size", &error),
    }
}

/// Bytes that the helper gave back so far: lets a program, or a test, see that it is this malloc.
#[unsafe(no_mangle)]
pub extern "C" fn memtap_rtmalloc_returned_bytes() -> u64 {
    heap().returned_bytes()
}

/// The name of this malloc, for the same purpose.
#[unsafe(no_mangle)]
pub extern "C" fn memtap_rtmalloc_name() -> *const c_char {
    c"memtap rtmalloc".as_ptr()
}
