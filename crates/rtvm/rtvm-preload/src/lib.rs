//! malloc and its relatives over one real-time heap, for LD_PRELOAD.
//!
//! `MEMTAP_RTMALLOC_BYTES` sets the size of the arena (64 GiB of address space otherwise). `MEMTAP_RTMALLOC_PREFAULT=1` makes all of
//! it resident from the start. Without prefault, a helper thread gives released pages back ([`helper`]), unless
//! `MEMTAP_RTMALLOC_HELPER=0`. Threads have caches of blocks of up to 64 KiB unless `MEMTAP_RTMALLOC_CACHE=0`. What malloc(3) calls
//! undefined (freeing twice, freeing what is not a block, an overwritten tag) ends the program with one line, as the C library does.

mod helper;
mod thread;

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void};
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use rtvm::heap::RawLock;
use rtvm::{Error, HOST_PAGE_BYTES};
use rtvm_alloc::{Arena, Heap};

/// Address space that the arena takes where nothing else is said; pages come when they are touched.
const ARENA_BYTES: usize = 64 << 30;

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

/// Whether `start` is done. Written by it alone, with release; who reads it with acquire sees the heap.
static IS_MADE: AtomicBool = AtomicBool::new(false);

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
pub(crate) fn die(what: &str, error: &Error) -> ! {
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
    IS_MADE.store(true, Ordering::Release);
    // SAFETY: registers our own functions.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
}

#[inline]
pub(crate) fn heap() -> &'static Heap {
    if !IS_MADE.load(Ordering::Acquire) {
        make();
    }
    // SAFETY: `start` came before: by the flag, or by pthread_once.
    unsafe { made_heap() }
}

/// The heap, by those who know that there is one.
///
/// # Safety
/// `start` has returned, and the caller saw something that was written after it.
#[inline(always)]
pub(crate) unsafe fn made_heap() -> &'static Heap {
    // SAFETY: written by `start`, and never again.
    unsafe { (*SLOT.heap.get()).assume_init_ref() }
}

#[cold]
fn make() {
    // SAFETY: a function of ours, once.
    unsafe { libc::pthread_once(SLOT.once.get(), start) };
}

extern "C" fn before_fork() {
    heap().lock().lock();
}

extern "C" fn after_fork() {
    // SAFETY: taken by `before_fork`, in this thread.
    unsafe { heap().lock().unlock() };
}

/// The child has one thread, which holds the lock under the parent's thread number, and no helper yet. What the parent's
/// helper had taken out at that moment stays in use.
extern "C" fn in_child() {
    // SAFETY: there is no other thread.
    unsafe { heap().lock().inherit() };
    helper::begin_anew(heap());
}

/// Runs when the library is loaded.
extern "C" fn load() {
    let heap = heap();
    if number(c"MEMTAP_RTMALLOC_CACHE") != Some(0) {
        thread::prepare();
    }
    if number(c"MEMTAP_RTMALLOC_PREFAULT") != Some(1) && number(c"MEMTAP_RTMALLOC_HELPER") != Some(0) {
        helper::allow(heap);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

fn set_errno(code: c_int) {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = code };
}

/// A block from the thread's cache, where it has one.
#[inline]
fn take(bytes: usize) -> Result<NonNull<u8>, Error> {
    let heap = heap();
    let block = thread::with_cache(heap, |cache| match cache {
        Some(cache) => heap.malloc(cache, bytes),
        None => heap.malloc_uncached(bytes),
    });
    helper::start_if_worth_it(heap);
    block
}

/// Every block lies at a multiple of 16: where that is enough, caches have it.
fn take_aligned(align: usize, bytes: usize) -> Result<NonNull<u8>, Error> {
    if align.is_power_of_two() && align <= 16 {
        return take(bytes);
    }
    let block = heap().memalign(align, bytes);
    helper::start_if_worth_it(heap());
    block
}

/// A block, or null with errno.
#[inline]
fn answer(what: &str, made: Result<NonNull<u8>, Error>) -> *mut c_void {
    match made {
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
    if let Some(Some(block)) = thread::with_ready_cache(|heap, cache| heap.malloc_quickly(cache, bytes)) {
        return block.as_ptr().cast();
    }
    malloc_slowly(bytes)
}

#[cold]
#[inline(never)]
extern "C" fn malloc_slowly(bytes: usize) -> *mut c_void {
    answer("malloc", take(bytes))
}

/// calloc(3)
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else {
        set_errno(libc::ENOMEM);
        return null_mut();
    };
    let block = answer("calloc", take(bytes));
    if !block.is_null() {
        // SAFETY: a block of that many bytes, which nobody else knows yet.
        unsafe { block.cast::<u8>().write_bytes(0, bytes) };
    }
    block
}

/// free(3)
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return };
    // SAFETY: the caller gives the block up.
    if thread::with_ready_cache(|heap, cache| unsafe { heap.free_quickly(cache, block) }) != Some(true) {
        // SAFETY: the caller gives the block up, and it was not released yet.
        unsafe { free_slowly(block) };
    }
}

/// # Safety
/// As `free`.
#[cold]
#[inline(never)]
unsafe extern "C" fn free_slowly(block: NonNull<u8>) {
    let heap = heap();
    let freed = thread::with_cache(heap, |cache| match cache {
        // SAFETY: the caller gives the block up.
        Some(cache) => unsafe { heap.free(cache, block) },
        // SAFETY: the caller gives the block up.
        None => heap.with(|heap| unsafe { heap.free(block) }),
    });
    if let Err(error) = freed {
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
    let heap = heap();
    let moved = if thread::are_caches_on() {
        // SAFETY: the caller gives the old block up where this succeeds.
        unsafe { heap.realloc(old, bytes) }
    } else {
        // SAFETY: the caller gives the old block up where this succeeds.
        unsafe { heap.realloc_uncached(old, bytes) }
    };
    helper::start_if_worth_it(heap);
    answer("realloc", moved)
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
    answer("memalign", take_aligned(align, bytes))
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
    match take_aligned(align, bytes) {
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
    memalign(HOST_PAGE_BYTES, bytes)
}

/// pvalloc(3)
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    match bytes.checked_next_multiple_of(HOST_PAGE_BYTES) {
        Some(bytes) => memalign(HOST_PAGE_BYTES, bytes),
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

/// What mallinfo2 tells. Goes through the whole heap under its lock: for people who ask, not for real-time threads.
fn walk() -> (rtvm::tlsf::HeapCensus, u64) {
    match heap().with(|heap| Ok((heap.check()?, heap.bytes()))) {
        Ok(walk) => walk,
        Err(error) => die("mallinfo", &error),
    }
}

/// mallinfo2(3). `arena` is the address space of the arena, `uordblks` what the program holds with tags, `fordblks` what is free,
/// `fsmblks` and `smblks` what threads' caches hold, `keepcost` the largest free block. Nothing is ever mapped for one block.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let (walk, bytes) = walk();
    libc::mallinfo2 {
        arena: bytes as usize,
        ordblks: walk.free_blocks as usize,
        smblks: walk.cached_blocks as usize,
        hblks: 0,
        hblkhd: 0,
        usmblks: 0,
        fsmblks: walk.cached_bytes as usize,
        uordblks: (walk.used_bytes - walk.cached_bytes) as usize,
        fordblks: walk.free_bytes as usize,
        keepcost: walk.largest_free as usize,
    }
}

/// mallinfo(3): the same, as far as an int goes.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> libc::mallinfo {
    let info = mallinfo2();
    let int = |value: usize| c_int::try_from(value).unwrap_or(c_int::MAX);
    libc::mallinfo {
        arena: int(info.arena),
        ordblks: int(info.ordblks),
        smblks: int(info.smblks),
        hblks: 0,
        hblkhd: 0,
        usmblks: 0,
        fsmblks: int(info.fsmblks),
        uordblks: int(info.uordblks),
        fordblks: int(info.fordblks),
        keepcost: int(info.keepcost),
    }
}

/// malloc_info(3): the same figures as XML, in the C library's form.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        return libc::EINVAL;
    }
    let (walk, bytes) = walk();
    // SAFETY: a stream of the caller's, and a format whose words are as wide as the arguments.
    let written = unsafe {
        libc::fprintf(
            stream,
            c"<malloc version=\"1\">\n<heap nr=\"0\">\n<total type=\"fast\" count=\"%lu\" size=\"%lu\"/>\n<total type=\"rest\" count=\"%lu\" size=\"%lu\"/>\n<total type=\"used\" count=\"%lu\" size=\"%lu\"/>\n<system type=\"current\" size=\"%lu\"/>\n</heap>\n</malloc>\n".as_ptr(),
            walk.cached_blocks,
            walk.cached_bytes,
            walk.free_blocks,
            walk.free_bytes,
            walk.used_blocks - walk.cached_blocks,
            walk.used_bytes - walk.cached_bytes,
            bytes,
        )
    };
    if written < 0 { -1 } else { 0 }
}

/// malloc_trim(3): gives back what waits, now.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_: usize) -> c_int {
    let before = heap().returned_bytes();
    while heap().return_some() {}
    c_int::from(heap().returned_bytes() > before)
}
