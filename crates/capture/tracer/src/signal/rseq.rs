//! Restartable sequences. The kernel would look for them at native addresses, and would end a program whose sequences
//! it finds on a closed page, so a traced thread has none. The program's calls get the kernel's native answer, except
//! that a registration that the kernel would accept fails with ENOSYS, as on kernels without such sequences. In a
//! process that was attached to, whose program has seen a registration succeed, it is made and undone at once.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use buffers::Record;
use memref::VirtAddr;
use tracee::{sys, tls};

use crate::memory::pages;
use crate::state::thread::TracedThread;
use crate::state::thread_signals::SequenceArea;

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

/// The area that the C library had registered for the calling thread, if [`forget`] took one of that length back.
pub(crate) fn note_forgotten(thread: &mut TracedThread, len: u32) {
    if len != 0 {
        thread.signals.rseq = SequenceArea { addr: own_area(), len, signature: SIGNATURE as u32 };
    }
}

/// What a call of the program would do natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It fails with that error.
    Error(i32),
    Registered,
    Unregistered,
}

/// The kernel's answer to a call, where it knows that area.
fn answer(known: SequenceArea, addr: u64, len: u32, flags: u32, signature: u32) -> Answer {
    /// Bytes of the area's first version, to which it is aligned.
    const FIRST_BYTES: u32 = 32;
    if flags & !(UNREGISTER as u32) != 0 {
        return Answer::Error(libc::EINVAL);
    }
    let is_known = known.len != 0;
    let is_same = is_known && known.addr == addr && known.len == len;
    if flags != 0 {
        return match is_same {
            false => Answer::Error(libc::EINVAL),
            true if known.signature != signature => Answer::Error(libc::EPERM),
            true => Answer::Unregistered,
        };
    }
    if is_known {
        return Answer::Error(match is_same {
            false => libc::EINVAL,
            true if known.signature != signature => libc::EPERM,
            true => libc::EBUSY,
        });
    }
    if len < FIRST_BYTES || !addr.is_multiple_of(FIRST_BYTES.into()) {
        return Answer::Error(libc::EINVAL);
    }
    match addr.checked_add(len.into()) {
        Some(end) if end <= pages::TOP => Answer::Registered,
        _ => Answer::Error(libc::EFAULT),
    }
}

/// A call of the program, of whose thread the kernel knows nothing.
pub(crate) fn pretend(thread: &mut TracedThread, args: &[usize; 6]) -> isize {
    let [addr, len, flags, signature, ..] = *args;
    let area = SequenceArea { addr: addr as u64, len: len as u32, signature: signature as u32 };
    match answer(thread.signals.rseq, area.addr, area.len, flags as u32, area.signature) {
        Answer::Error(error) => -(error as isize),
        Answer::Unregistered => {
            thread.signals.rseq = SequenceArea::NONE;
            0
        }
        Answer::Registered => {
            thread.signals.rseq = area;
            if area.addr != own_area() {
                // Those of the C library, which uses none itself, are in each thread of each program.
                let name = b"registrations of rseq refused (the program has no restartable sequences)";
                thread.emit(&Record::Counter { ip: VirtAddr(0), count: 1, name });
            }
            -(libc::ENOSYS as isize)
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNED: u32 = SIGNATURE as u32;

    #[test]
    fn the_kernels_answers_follow_from_what_it_knows() {
        let known = SequenceArea { addr: 0x1000, len: 32, signature: SIGNED };
        let check = |known, addr, len, flags, signature, expect| {
            assert_eq!(answer(known, addr, len, flags, signature), expect);
        };
        let none = SequenceArea::NONE;
        check(none, 0x1000, 32, 0, 1, Answer::Registered);
        check(none, 0x1020, 64, 0, 1, Answer::Registered);
        check(none, 0x1010, 32, 0, 1, Answer::Error(libc::EINVAL));
        check(none, 0x1000, 31, 0, 1, Answer::Error(libc::EINVAL));
        check(none, pages::TOP, 32, 0, 1, Answer::Error(libc::EFAULT));
        check(none, 0x1000, 32, 1, 1, Answer::Error(libc::EINVAL));
        check(none, 0x1000, 32, 2, 1, Answer::Error(libc::EINVAL));
        check(known, 0x1000, 32, 0, SIGNED, Answer::Error(libc::EBUSY));
        check(known, 0x1000, 32, 0, 1, Answer::Error(libc::EPERM));
        check(known, 0x1020, 32, 0, SIGNED, Answer::Error(libc::EINVAL));
        check(known, 0x1000, 64, 0, SIGNED, Answer::Error(libc::EINVAL));
        check(known, 0x1000, 32, 1, 1, Answer::Error(libc::EPERM));
        check(known, 0x1020, 32, 1, SIGNED, Answer::Error(libc::EINVAL));
        check(known, 0x1000, 32, 3, SIGNED, Answer::Error(libc::EINVAL));
        check(known, 0x1000, 32, 1, SIGNED, Answer::Unregistered);
    }
}
