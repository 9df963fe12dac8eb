//! Reads the program's memory as the kernel would for the program: an invalid
//! pointer yields an error, not a fault. Writing is in `program_writes`.

use core::ffi::CStr;
use core::mem::{MaybeUninit, offset_of};
use core::sync::atomic::{AtomicBool, Ordering};

use tracee::frame::{AltStack, SigAction, SigInfo};
use tracee::{guarded, sys};

use crate::memory::pages;

/// Reads the program's memory. `false`: not all of it can be read.
pub(crate) fn read(addr: u64, into: &mut [u8]) -> bool {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = addr.wrapping_add(done as u64);
        // A page at a time, because neighbours may be open at different places.
        let part = rest.len().min(pages::rest_of_page(at) as usize);
        // SAFETY: the slice has that many bytes.
        let copied = unsafe { guarded::copy(rest.as_mut_ptr() as u64, pages::open_address(at), part) };
        if copied != part {
            return false;
        }
        done += part;
    }
    true
}

/// The kernel may be asked to read. Not where system calls are filtered: what a filter does with a call that the program does not
/// make itself may be the program's end.
static KERNEL_READS: AtomicBool = AtomicBool::new(true);

/// The process may have a filter of system calls, from now on or since before it executed this program.
pub(crate) fn note_filter() {
    // SAFETY: no pointers.
    let mode =
        unsafe { sys::syscall(libc::SYS_prctl as usize, [libc::PR_GET_SECCOMP as usize, 0, 0, 0, 0, 0]) };
    if mode != 0 {
        KERNEL_READS.store(false, Ordering::Relaxed);
    }
}

/// The program is about to filter its system calls.
pub(crate) fn on_filter() {
    KERNEL_READS.store(false, Ordering::Relaxed);
}

/// Whether the process may have such a filter.
pub(crate) fn is_filtered() -> bool {
    !KERNEL_READS.load(Ordering::Relaxed)
}

/// As [`read`], by the kernel where that may be asked: for what may well not be there, and while a thread is stopped by a debugger,
/// which would see the fault.
pub(crate) fn read_by_kernel(addr: u64, into: &mut [u8]) -> bool {
    if !KERNEL_READS.load(Ordering::Relaxed) {
        return read(addr, into);
    }
    let local = [into.as_mut_ptr() as usize, into.len()];
    let remote = [addr as usize, into.len()];
    let args = [sys::gettid() as usize, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
    // SAFETY: the kernel writes at most the bytes of the slice, and says how much it could read.
    let result = unsafe { sys::syscall(libc::SYS_process_vm_readv as usize, args) };
    if result == -(sys::EPERM as isize) || result == -(sys::ENOSYS as isize) {
        KERNEL_READS.store(false, Ordering::Relaxed);
        return read(addr, into);
    }
    result as usize == into.len()
}

/// Types of which any bytes are a value.
pub(crate) trait AnyBytes: Copy {}
impl AnyBytes for u64 {}
impl AnyBytes for [u64; 2] {}
impl AnyBytes for [u64; 8] {}
impl AnyBytes for SigAction {}
impl AnyBytes for SigInfo {}
impl AnyBytes for AltStack {}
impl AnyBytes for libc::sock_filter {}

/// A value in the program's memory, wherever it is open; `None` where it can't be read.
pub(crate) fn value<T: AnyBytes>(addr: u64) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the bytes of a local, which are zeros.
    let bytes = unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    // SAFETY: zeros, or what was read: any bytes are a value.
    read(addr, bytes).then(|| unsafe { value.assume_init() })
}

/// A word of the program's memory; zero where it can't be read.
pub(crate) fn word(addr: u64) -> u64 {
    value(addr).unwrap_or(0)
}

/// A value so many bytes behind an address of the program's, which may be any number.
pub(crate) fn value_behind<T: AnyBytes>(addr: u64, offset: u64) -> Option<T> {
    value(addr.wrapping_add(offset))
}

/// The same of a word; zero where it can't be read.
pub(crate) fn word_behind(addr: u64, offset: usize) -> u64 {
    word(addr.wrapping_add(offset as u64))
}

/// Address and number of a msghdr's vectors.
pub(crate) fn message_vectors(header: u64) -> (u64, u64) {
    let field = |offset| word_behind(header, offset);
    (field(offset_of!(libc::msghdr, msg_iov)), field(offset_of!(libc::msghdr, msg_iovlen)))
}

/// Reads a string of the program, with its zero. `None`: it can't be read, or is longer than the room for it.
pub(crate) fn string(addr: u64, into: &mut [u8]) -> Option<&CStr> {
    let mut done = 0;
    while done < into.len() {
        let at = addr.wrapping_add(done as u64);
        // Little at a time: most strings are short.
        let part = (into.len() - done).min(64 - (at as usize & 63));
        let place = into.get_mut(done..done + part)?;
        if !read(at, place) {
            return None;
        }
        if place.contains(&0) {
            return CStr::from_bytes_until_nul(into).ok();
        }
        done += part;
    }
    None
}

/// The bytes of a string of the program, without its zero and at most `most`; `None` where it can't be read.
pub(crate) fn string_len(addr: u64, most: u64) -> Option<u64> {
    let mut room = [0; 64];
    let mut len = 0;
    while len < most {
        let at = addr.wrapping_add(len);
        let part = 64 - (at & 63);
        let place = room.get_mut(..part as usize)?;
        if !read(at, place) {
            return None;
        }
        if let Some(end) = place.iter().position(|&byte| byte == 0) {
            return Some(most.min(len + end as u64));
        }
        len += part;
    }
    Some(most)
}

/// Whether a string of the program begins so; `None` where it can't be read.
pub(crate) fn starts_with(addr: u64, name: &[u8]) -> Option<bool> {
    for (index, &byte) in name.iter().enumerate() {
        // No further than the first difference.
        let mut own = [0];
        if !read(addr.wrapping_add(index as u64), &mut own) {
            return None;
        }
        if own != [byte] {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_read() {
        let mut into = [0; 4];
        assert!(read(b"abcd".as_ptr() as u64, &mut into));
        assert_eq!(&into, b"abcd");
        // That nothing is there is told by the handler of the fault, which is not in this test.
        assert!(read(8, &mut []));
        assert!(read_by_kernel(b"abcd".as_ptr() as u64, &mut into) && !read_by_kernel(8, &mut into));
    }

    #[test]
    fn strings_end_with_a_zero_or_where_the_caller_says() {
        let check = |text: &[u8], expect: u64| {
            assert_eq!(string_len(text.as_ptr() as u64, 4096), Some(expect));
        };
        check(b"/bin/sh\0", 7);
        check(b"\0", 0);
        let mut room = [0; 8];
        assert_eq!(string(c"/bin/sh".as_ptr() as u64, &mut room), Some(c"/bin/sh"));
        assert_eq!(string(c"/bin/bash".as_ptr() as u64, &mut room), None);
        assert_eq!(starts_with(c"LD_PRELOAD=x".as_ptr() as u64, b"LD_PRELOAD="), Some(true));
        assert_eq!(starts_with(c"LD".as_ptr() as u64, b"LD_PRELOAD="), Some(false));
        check(&[b'a'; 5120], 4096);
        assert_eq!(string_len(c"/bin/sh".as_ptr() as u64, 3), Some(3));
        assert_eq!(string_len(c"/bin/sh".as_ptr() as u64, 3), Some(3));
    }
}
