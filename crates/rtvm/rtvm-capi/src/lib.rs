//! The real-time heap ([`rtvm_alloc::Heap`]) for programs in C; `include/memtap_rtheap.h` documents it.

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

use rtvm::{Error, RtHeap};
use rtvm_alloc::{Arena, Heap, RETURN_BYTES};

/// `MEMTAP_RTHEAP_PREFAULT`
const PREFAULT: u32 = 1;
/// `MEMTAP_RTHEAP_HELPER`
const HELPER: u32 = 2;

const OK: c_int = 0;
const INVALID: c_int = -1;
const NO_MEMORY: c_int = -2;
const NOT_A_BLOCK: c_int = -3;
const ALREADY_FREE: c_int = -4;
const CORRUPT: c_int = -5;

fn code(error: &Error) -> c_int {
    match error {
        Error::NotABlock { .. } => NOT_A_BLOCK,
        Error::AlreadyFree { .. } => ALREADY_FREE,
        Error::Corrupt { .. } => CORRUPT,
        Error::BadAlignment { .. } => INVALID,
        _ => NO_MEMORY,
    }
}

/// Makes a heap over a new arena.
#[unsafe(no_mangle)]
pub extern "C" fn memtap_rtheap_create(bytes: usize, flags: u32) -> *mut Heap {
    let mut heap = Box::new(Heap::new());
    let arena = Arena { bytes, prefault: flags & PREFAULT != 0 };
    // SAFETY: nobody else knows it yet; a box does not move.
    if unsafe { heap.map(arena) }.is_err() {
        return null_mut();
    }
    // SAFETY: it lives until `memtap_rtheap_destroy`, which stops the helper first.
    if flags & HELPER != 0 && !arena.prefault && !unsafe { heap.start_helper() } {
        heap.stop();
        return null_mut();
    }
    Box::into_raw(heap)
}

/// Ends a heap and all its blocks.
///
/// # Safety
/// A heap of `memtap_rtheap_create` that nobody uses any more, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_rtheap_destroy(heap: *mut Heap) {
    if heap.is_null() {
        return;
    }
    // SAFETY: from `Box::into_raw` above, and given up by the caller.
    let mut heap = unsafe { Box::from_raw(heap) };
    heap.stop();
}

/// Calls with the heap. Null and errors are null.
///
/// # Safety
/// A heap of `memtap_rtheap_create`, or null.
unsafe fn allocate(
    heap: *const Heap,
    call: impl FnOnce(&mut RtHeap) -> Result<NonNull<u8>, Error>,
) -> *mut c_void {
    // SAFETY: says the caller.
    let Some(heap) = (unsafe { heap.as_ref() }) else { return null_mut() };
    heap.with(call).map_or(null_mut(), |block| block.as_ptr().cast())
}

/// malloc
///
/// # Safety
/// A heap of `memtap_rtheap_create`, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_rtheap_malloc(heap: *mut Heap, bytes: usize) -> *mut c_void {
    // SAFETY: says the caller.
    unsafe { allocate(heap, |heap| heap.malloc(bytes)) }
}

/// calloc
///
/// # Safety
/// As `memtap_rtheap_malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_rtheap_calloc(heap: *mut Heap, count: usize, size: usize) -> *mut c_void {
    // SAFETY: says the caller.
    unsafe { allocate(heap, |heap| heap.calloc(count, size)) }
}

/// memalign
///
/// # Safety
/// As `memtap_rtheap_malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_rtheap_memalign(heap: *mut Heap, align: usize, bytes: usize) -> *mut c_void {
    // SAFETY: says the caller.
    unsafe { allocate(heap, |heap| heap.memalign(align, bytes)) }
}

/// realloc
///
/// # Safety
/// As `memtap_rtheap_malloc`; the block is given up where the result is not null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_rtheap_realloc(
    heap: *mut Heap,
    block: *mut c_void,
    bytes: usize,
) -> *mut c_void {
    let call = |heap: &mut RtHeap| match NonNull::new(block.cast::<u8>()) {
        // SAFETY: given up by the caller.
        Some(block) => unsafe { heap.realloc(block, bytes) },
        None => heap.malloc(bytes),
    };
    // SAFETY: says the caller.
    unsafe { allocate(heap, call) }
}

/// free
///
/// # Safety
/// As `memtap_rtheap_malloc`; the block is given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_rtheap_free(heap: *mut Heap, block: *mut c_void) -> c_int {
    // SAFETY: says the caller.
    let Some(heap) = (unsafe { heap.as_ref() }) else { return INVALID };
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return OK };
    // SAFETY: given up by the caller.
    heap.with(|heap| unsafe { heap.free(block) }).map_or_else(|error| code(&error), |()| OK)
}

/// malloc_usable_size
///
/// # Safety
/// As `memtap_rtheap_malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_rtheap_usable_size(heap: *mut Heap, block: *mut c_void) -> usize {
    // SAFETY: says the caller.
    let Some(heap) = (unsafe { heap.as_ref() }) else { return 0 };
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return 0 };
    heap.with(|heap| heap.usable(block)).unwrap_or(0)
}

/// Gives all released whole pages back now.
///
/// # Safety
/// As `memtap_rtheap_malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_rtheap_trim(heap: *mut Heap) {
    // SAFETY: says the caller.
    if let Some(heap) = unsafe { heap.as_ref() } {
        while heap.return_some() {}
    }
}

/// Bytes given back to the kernel so far.
///
/// # Safety
/// As `memtap_rtheap_malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_rtheap_returned_bytes(heap: *mut Heap) -> u64 {
    // SAFETY: says the caller.
    unsafe { heap.as_ref() }.map_or(0, Heap::returned_bytes)
}

/// Whether all tags are as they should be.
///
/// # Safety
/// As `memtap_rtheap_malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_rtheap_check(heap: *mut Heap) -> c_int {
    // SAFETY: says the caller.
    let Some(heap) = (unsafe { heap.as_ref() }) else { return INVALID };
    heap.with(RtHeap::check).map_or_else(|error| code(&error), |_| OK)
}

/// Bytes of an arena in which nothing fails; 0 where there is no such number.
#[unsafe(no_mangle)]
pub extern "C" fn memtap_rtheap_arena_bytes(live_bytes: u64, live_blocks: u64, largest: u64) -> u64 {
    RtHeap::arena_bytes(live_bytes, live_blocks, largest, 2 * RETURN_BYTES as u64).unwrap_or(0)
}
