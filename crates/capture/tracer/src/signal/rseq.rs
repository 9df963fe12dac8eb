//! Restartable sequences. The kernel would look for them at native addresses, and end a program whose sequences it finds on a
//! closed page: a traced thread has none.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tracee::{sys, tls};

use crate::state::thread::TracedThread;

const SIGNATURE: usize = 0x5305_3053;
const UNREGISTER: usize = 1;

/// Where in a thread's area the address of its present sequence is.
const SEQUENCE_AT: u64 = 8;

/// Where the C library keeps a thread's area, from its thread pointer on, and how long it is; zero: it has none.
static OFFSET: AtomicU64 = AtomicU64::new(0);
static SIZE: AtomicU32 = AtomicU32::new(0);

/// Asks the loader for two variables of the C library, which it has since version 2.35.
pub(crate) fn find() {
    // SAFETY: names that end with a zero; the variables have these types.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        if !offset.is_null() && !size.is_null() {
            OFFSET.store(offset.read() as u64, Ordering::Relaxed);
            SIZE.store(size.read(), Ordering::Relaxed);
        }
    }
}

fn own_area() -> u64 {
    tls::fs_base().wrapping_add(OFFSET.load(Ordering::Relaxed))
}

fn call(len: u32, flags: usize) -> isize {
    // SAFETY: the thread's own registration; one that does not match is an error without effect.
    unsafe {
        sys::syscall(libc::SYS_rseq as usize, [own_area() as usize, len as usize, flags, SIGNATURE, 0, 0])
    }
}

/// Takes back what the C library has told the kernel of the calling thread. Returns the length of the area; zero: there was
/// none. Threads that start later are refused.
pub(crate) fn forget() -> u32 {
    let size = SIZE.load(Ordering::Relaxed);
    if size == 0 {
        return 0;
    }
    [32, size].into_iter().find(|&len| call(len, UNREGISTER) == 0).unwrap_or(0)
}

/// A registration by the program, which has seen one succeed: it would end where the next one fails. So this one does, and is
/// taken back at once.
pub(crate) fn register(thread: &mut TracedThread, args: &[usize; 6]) -> isize {
    let again = |args: [usize; 6]| {
        // SAFETY: the program's own call, and what undoes it.
        unsafe { sys::syscall(libc::SYS_rseq as usize, args) }
    };
    let result = again(*args);
    let [area, len, flags, signature, ..] = *args;
    if result == 0 && flags == 0 && again([area, len, UNREGISTER, signature, 0, 0]) == 0 {
        thread.signals.rseq_len = if area as u64 == own_area() { len as u32 } else { 0 };
    }
    result
}

/// Tells the kernel again.
pub(crate) fn restore(len: u32) {
    if len != 0 {
        call(len, 0);
    }
}

/// Where the calling thread goes on that was stopped at `rip`: a sequence that it was in is aborted.
pub(crate) fn aborted(rip: u64) -> u64 {
    if SIZE.load(Ordering::Relaxed) == 0 {
        return rip;
    }
    // SAFETY: the C library's area of this thread; the sequence that it names is of the program's data, as the kernel would
    // read it: version and flags, first address, length, address of the abort.
    unsafe {
        let sequence = ((own_area() + SEQUENCE_AT) as *const u64).read_volatile() as *const u64;
        if sequence.is_null() {
            return rip;
        }
        let [start, len, abort] = [1, 2, 3].map(|word| sequence.add(word).read());
        if rip.wrapping_sub(start) < len { abort } else { rip }
    }
}
