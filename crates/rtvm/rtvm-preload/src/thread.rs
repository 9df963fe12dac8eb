//! The calling thread's cache: created at its first call, returned to the heap when the thread ends.
//!
//! The word that points to it is thread-local storage of the initial-exec model, written in assembly: the code
//! that Rust and C generate for a thread-local variable in a library may call the allocator at its first use.

use std::arch::{asm, global_asm};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use rtvm_alloc::{Heap, ThreadCache};

global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".balign 8",
    ".hidden memtap_rtmalloc_cache",
    ".globl memtap_rtmalloc_cache",
    ".type memtap_rtmalloc_cache, @object",
    ".size memtap_rtmalloc_cache, 8",
    "memtap_rtmalloc_cache:",
    ".zero 8",
    ".text",
);

/// The thread has no cache and gets none: it makes one just now, or ends.
const NONE: usize = 1;
/// The key whose destructor runs at a thread's end, plus one; 0: not made, no thread caches anything.
static KEY: AtomicU32 = AtomicU32::new(0);

/// This thread's word: 0 at first, [`NONE`], or its cache.
#[inline]
fn word() -> *mut usize {
    let at: *mut usize;
    // SAFETY: the initial-exec model's address of this thread's copy of the symbol above.
    unsafe {
        asm!(
            "mov {at}, qword ptr [rip + memtap_rtmalloc_cache@GOTTPOFF]",
            "add {at}, qword ptr fs:[0]",
            at = out(reg) at, options(nostack, pure, readonly),
        );
    }
    at
}

/// Lets threads have caches from now on.
pub(crate) fn prepare() {
    let mut key = 0;
    // SAFETY: `leave` takes the value that `make` stored.
    if unsafe { libc::pthread_key_create(&mut key, Some(leave)) } == 0 {
        KEY.store(key + 1, Ordering::Release);
    }
}

/// Whether threads have caches at all.
pub(crate) fn are_caches_on() -> bool {
    KEY.load(Ordering::Acquire) != 0
}

/// Calls with the thread's cache, if it has one.
#[inline]
pub(crate) fn with_cache<R>(heap: &Heap, call: impl FnOnce(Option<&mut ThreadCache>) -> R) -> R {
    // SAFETY: this thread's own word.
    let mut value = unsafe { *word() };
    if value == 0 {
        value = make(heap);
    }
    if value <= NONE {
        return call(None);
    }
    // A signal handler that allocates is against the rules of malloc, but an abort in one must not find a cache half
    // changed: it gets none meanwhile.
    // SAFETY: this thread's own word, and its own cache, which `make` wrote.
    unsafe {
        *word() = NONE;
        let result = call(Some(&mut *(value as *mut ThreadCache)));
        *word() = value;
        result
    }
}

/// Calls with the thread's cache, if it has one already: then there is a heap, too. `call` should call nothing itself.
#[inline(always)]
pub(crate) fn with_ready_cache<R>(call: impl FnOnce(&Heap, &mut ThreadCache) -> R) -> Option<R> {
    let word = word();
    // SAFETY: this thread's own word.
    let value = unsafe { *word };
    if value <= NONE {
        return None;
    }
    // The word says "none" meanwhile, for signal handlers: nothing may be moved over these writes.
    // SAFETY: this thread's own word, and its own cache, which `make` wrote after the heap was there.
    unsafe {
        word.write_volatile(NONE);
        compiler_fence(Ordering::SeqCst);
        let result = call(crate::made_heap(), &mut *(value as *mut ThreadCache));
        compiler_fence(Ordering::SeqCst);
        word.write_volatile(value);
        Some(result)
    }
}

#[cold]
fn make(heap: &Heap) -> usize {
    let key = KEY.load(Ordering::Acquire);
    if key == 0 {
        return NONE;
    }
    // SAFETY: this thread's own word. Setting the key's value may allocate, without cache.
    unsafe { *word() = NONE };
    let Ok(block) = heap.with(|heap| heap.malloc(size_of::<ThreadCache>())) else { return NONE };
    let cache = block.cast::<ThreadCache>();
    // SAFETY: a fresh block of that size, at a multiple of 16.
    unsafe { cache.write(ThreadCache::new()) };
    // SAFETY: a key of ours; without it the thread's end would not give the cache back.
    if unsafe { libc::pthread_setspecific(key - 1, cache.as_ptr().cast()) } != 0 {
        // SAFETY: nobody knows the block.
        let _ = heap.with(|heap| unsafe { heap.free(block) });
        return NONE;
    }
    // SAFETY: this thread's own word.
    unsafe { *word() = cache.as_ptr() as usize };
    cache.as_ptr() as usize
}

extern "C" fn leave(cache: *mut c_void) {
    let heap = crate::heap();
    // What later destructors release goes to the heap itself.
    // SAFETY: this thread's own word and cache, which nobody uses any more.
    unsafe { *word() = NONE };
    // SAFETY: the ending thread's own cache, which nobody uses any more.
    let drained = heap.drain(unsafe { &mut *cache.cast::<ThreadCache>() });
    let freed = std::ptr::NonNull::new(cache.cast::<u8>()).map_or(Ok(()), |block| {
        // SAFETY: the block was given by this heap, and the drained cache in it is not used again.
        heap.with(|heap| unsafe { heap.free(block) })
    });
    if let Err(error) = drained.and(freed) {
        crate::die("free at a thread's end", &error);
    }
}
