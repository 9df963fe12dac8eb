//! The program's memory, as the kernel would read it for the program.

use core::mem::offset_of;

use tracee::sys;

use crate::protect::pages;

/// A word of the program's memory, wherever it is open.
pub(crate) unsafe fn read_word(addr: u64) -> u64 {
    // SAFETY: the caller knows that the program's memory is there.
    unsafe { (pages::open_address(addr) as *const u64).read_unaligned() }
}

/// Address and number of a msghdr's vectors.
pub(crate) unsafe fn message_vectors(header: u64) -> (u64, u64) {
    // SAFETY: the caller knows that the structure is there.
    unsafe {
        (
            read_word(header + offset_of!(libc::msghdr, msg_iov) as u64),
            read_word(header + offset_of!(libc::msghdr, msg_iovlen) as u64),
        )
    }
}

/// Bytes of a string of the program that the kernel has accepted; longer than any path where it did not.
pub(crate) unsafe fn string_len(addr: u64) -> u64 {
    let byte = |index: u64| {
        // SAFETY: the caller knows that the string is there, and nothing after its zero is read.
        unsafe { (pages::open_address(addr + index) as *const u8).read_volatile() }
    };
    let mut len = 0;
    while len < libc::PATH_MAX as u64 && byte(len) != 0 {
        len += 1;
    }
    len
}

/// Reads the program's memory. `false`: not all of it can be read.
pub(crate) fn read(addr: u64, into: &mut [u8]) -> bool {
    let local = [into.as_mut_ptr() as usize, into.len()];
    let remote = [addr as usize, into.len()];
    let args = [sys::gettid() as usize, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
    // SAFETY: the kernel writes at most the bytes of the slice, and says how much it could read.
    let read = unsafe { sys::syscall(libc::SYS_process_vm_readv as usize, args) };
    read as usize == into.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_read_is_no_fault() {
        let mut into = [0; 4];
        assert!(read(b"abcd".as_ptr() as u64, &mut into));
        assert_eq!(&into, b"abcd");
        assert!(!read(8, &mut into));
    }

    #[test]
    fn strings_end_with_a_zero_or_at_the_length_of_a_path() {
        let check = |text: &[u8], expect: u64| {
            // SAFETY: the bytes end with a zero, or are longer than any path.
            assert_eq!(unsafe { string_len(text.as_ptr() as u64) }, expect);
        };
        check(b"/bin/sh\0", 7);
        check(b"\0", 0);
        check(&[b'a'; 5000], 4096);
    }
}
