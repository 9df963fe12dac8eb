//! malloc and its relatives (MadT, section III-F): one event per call. What the allocator
//! itself does to memory is part of that event, so its accesses are executed but not recorded.

use core::ffi::{c_int, c_void};

use memref::{AllocationFunction, AllocationKind};

use crate::calls::real::real;
use crate::emit::recorder;
use crate::events::allocation_event::AllocationEvent;
use crate::signal::busy;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

real!(fn real_malloc(size: usize) -> *mut c_void = c"malloc");

real!(fn real_calloc(count: usize, size: usize) -> *mut c_void = c"calloc");

real!(fn real_realloc(block: *mut c_void, size: usize) -> *mut c_void = c"realloc");

real!(fn real_reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void = c"reallocarray");

real!(fn real_free(block: *mut c_void) = c"free");

real!(fn real_posix_memalign(block: *mut *mut c_void, align: usize, size: usize) -> c_int = c"posix_memalign");

real!(fn real_aligned_alloc(align: usize, size: usize) -> *mut c_void = c"aligned_alloc");

real!(fn real_memalign(align: usize, size: usize) -> *mut c_void = c"memalign");

real!(fn real_valloc(size: usize) -> *mut c_void = c"valloc");

real!(fn real_pvalloc(size: usize) -> *mut c_void = c"pvalloc");

/// Runs `body` without recording what it does to memory.
pub(crate) fn silently<R>(body: impl FnOnce() -> R) -> R {
    let thread = TracedThread::current();
    if thread.is_null() {
        return body();
    }
    // SAFETY: this thread's own counter; handlers that interrupt us put it back as they found it.
    unsafe {
        (*thread).calls.silent += 1;
        let result = body();
        (*thread).calls.silent = (*thread).calls.silent.saturating_sub(1);
        result
    }
}

/// Whether a call of this thread is an event now: recording, and not inside another call that is one.
pub(crate) fn is_event() -> bool {
    let thread = TracedThread::current();
    // SAFETY: this thread's own state.
    PROCESS.is_recording() && !thread.is_null() && unsafe { (*thread).calls.silent == 0 }
}

/// Runs a function of the allocator: silent, and what it calls of its own is no event.
fn allocating<R>(body: impl FnOnce() -> R) -> R {
    let thread = TracedThread::current();
    if thread.is_null() {
        return body();
    }
    // SAFETY: this thread's own counter; handlers that interrupt us put it back as they found it.
    unsafe {
        (*thread).calls.allocating += 1;
        let result = silently(body);
        (*thread).calls.allocating = (*thread).calls.allocating.saturating_sub(1);
        result
    }
}

/// Whether a call of the allocator is an event now. It is one inside of a block operation too: what fread and fwrite allocate
/// outlives them.
fn is_allocation() -> bool {
    let thread = TracedThread::current();
    // SAFETY: this thread's own state.
    PROCESS.is_recording() && !thread.is_null() && unsafe { (*thread).calls.allocating == 0 }
}

/// A note of a call that is no event must not be taken for the next one's.
fn forget_note() {
    let thread = TracedThread::current();
    if !thread.is_null() {
        // SAFETY: this thread's own state.
        unsafe { (*thread).words.site = 0 };
    }
}

impl AllocationEvent {
    /// Records it as an event of the calling thread.
    fn tell(self) {
        busy::as_thread(|thread| self.tell_as(thread));
    }
}

/// A call that gave a new block.
fn allocated(
    kind: AllocationKind,
    function: AllocationFunction,
    block: *mut c_void,
    len: usize,
    return_to: u64,
) {
    if !block.is_null() && is_allocation() {
        // Drawn after the call: whoever freed this memory before has drawn already.
        let order = recorder::next_order();
        AllocationEvent { kind, function, order, addr: block as u64, len, old: 0, return_to }.tell();
    }
}

macro_rules! wrapper {
    ($symbol:ident($($arg:ident: $kind:ty),*; $($unused:ident)*; $return_to:ident) $(-> $result:ty)? $body:block) => {
        /// # Safety
        /// As the C library's function.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $symbol($($arg: $kind,)* $($unused: usize,)* $return_to: u64) $(-> $result)? $body
    };
}

// The sixth argument is the address that the program's call returns to (crate interpose); those between are unused.
wrapper!(memtap_malloc(size: usize; _b _c _d _e; return_to) -> *mut c_void {
    // SAFETY: the program's own call.
    let block = allocating(|| unsafe { real_malloc(size) });
    allocated(AllocationKind::Malloc, AllocationFunction::Malloc, block, size, return_to);
    block
});

wrapper!(memtap_calloc(count: usize, size: usize; _c _d _e; return_to) -> *mut c_void {
    // SAFETY: the program's own call.
    let block = allocating(|| unsafe { real_calloc(count, size) });
    allocated(AllocationKind::Calloc, AllocationFunction::Calloc, block, count.wrapping_mul(size), return_to);
    block
});

fn reallocated(
    function: AllocationFunction,
    old: *mut c_void,
    block: *mut c_void,
    len: usize,
    return_to: u64,
) {
    if !is_allocation() {
        return;
    }
    let order = recorder::next_order();
    if !block.is_null() {
        let kind = AllocationKind::Realloc;
        AllocationEvent { kind, function, order, addr: block as u64, len, old: old as u64, return_to }.tell();
    } else if len == 0 && !old.is_null() {
        let kind = AllocationKind::Free;
        AllocationEvent { kind, function, order, addr: old as u64, len: 0, old: 0, return_to }.tell();
    }
}

wrapper!(memtap_realloc(old: *mut c_void, size: usize; _c _d _e; return_to) -> *mut c_void {
    // SAFETY: the program's own call.
    let block = allocating(|| unsafe { real_realloc(old, size) });
    reallocated(AllocationFunction::Realloc, old, block, size, return_to);
    block
});

wrapper!(memtap_reallocarray(old: *mut c_void, count: usize, size: usize; _d _e; return_to) -> *mut c_void {
    // SAFETY: the program's own call.
    let block = allocating(|| unsafe { real_reallocarray(old, count, size) });
    reallocated(AllocationFunction::Reallocarray, old, block, count.wrapping_mul(size), return_to);
    block
});

wrapper!(memtap_free(block: *mut c_void; _b _c _d _e; return_to) {
    if !is_allocation() {
        forget_note();
    } else if !block.is_null() {
        // Drawn before the call: as soon as the block is free, another thread may get it.
        let order = recorder::next_order();
        let (kind, function) = (AllocationKind::Free, AllocationFunction::Free);
        AllocationEvent { kind, function, order, addr: block as u64, len: 0, old: 0, return_to }.tell();
    }
    // SAFETY: the program's own call.
    allocating(|| unsafe { real_free(block) });
});

wrapper!(memtap_posix_memalign(place: *mut *mut c_void, align: usize, size: usize; _d _e; return_to) -> c_int {
    let mut block = core::ptr::null_mut();
    // SAFETY: the program's own call; the result is handed on below, as the program's own access.
    let result = allocating(|| unsafe { real_posix_memalign(&raw mut block, align, size) });
    if result == 0 {
        allocated(AllocationKind::Malloc, AllocationFunction::PosixMemalign, block, size, return_to);
        // SAFETY: the program's place for it.
        silently(|| unsafe { place.write(block) });
    }
    result
});

macro_rules! aligned {
    ($($symbol:ident($($arg:ident),*; $($unused:ident)*) = $real:ident, $function:ident;)*) => {
        $(wrapper!($symbol($($arg: usize),*, size: usize; $($unused)*; return_to) -> *mut c_void {
            // SAFETY: the program's own call.
            let block = allocating(|| unsafe { $real($($arg,)* size) });
            allocated(AllocationKind::Malloc, AllocationFunction::$function, block, size, return_to);
            block
        });)*
    };
}

aligned! {
    memtap_aligned_alloc(align; _c _d _e) = real_aligned_alloc, AlignedAlloc;
    memtap_memalign(align; _c _d _e) = real_memalign, Memalign;
}

wrapper!(memtap_valloc(size: usize; _b _c _d _e; return_to) -> *mut c_void {
    // SAFETY: the program's own call.
    let block = allocating(|| unsafe { real_valloc(size) });
    allocated(AllocationKind::Malloc, AllocationFunction::Valloc, block, size, return_to);
    block
});

wrapper!(memtap_pvalloc(size: usize; _b _c _d _e; return_to) -> *mut c_void {
    // SAFETY: the program's own call.
    let block = allocating(|| unsafe { real_pvalloc(size) });
    allocated(AllocationKind::Malloc, AllocationFunction::Valloc, block, size, return_to);
    block
});

/// Asks the loader for the function that releases what the loader itself has allocated: that must be known before a name is asked for
/// that does not exist, since the next question begins with releasing the message about the last one.
pub(crate) fn find_free() {
    // SAFETY: nothing is released.
    unsafe { real_free(core::ptr::null_mut()) };
}
