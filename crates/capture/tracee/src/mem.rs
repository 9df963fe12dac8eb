//! The memory functions that the compiler calls.
//!
//! A tracer that exports its own `memcpy` to the program must not call it itself. The library is linked with
//! `--wrap=memcpy` (and so on), which sends the compiler's calls here.

use core::arch::asm;

/// # Safety
/// As memcpy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_memcpy(dst: *mut u8, src: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear in all compiled code.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") dst => _, inout("rsi") src => _, options(nostack, preserves_flags));
    }
    dst
}

/// # Safety
/// As memmove.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_memmove(dst: *mut u8, src: *const u8, len: usize) -> *mut u8 {
    if (dst as usize).wrapping_sub(src as usize) >= len {
        // SAFETY: the caller's promise; forward copying is right where dst is not inside src.
        return unsafe { __wrap_memcpy(dst, src, len) };
    }
    // SAFETY: the caller's promise; backwards, and the direction flag is restored.
    unsafe {
        asm!("std", "rep movsb", "cld",
            inout("rcx") len => _, inout("rdi") dst.wrapping_add(len).wrapping_sub(1) => _,
            inout("rsi") src.wrapping_add(len).wrapping_sub(1) => _, options(nostack));
    }
    dst
}

/// # Safety
/// As memset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_memset(dst: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep stosb", inout("rcx") len => _, inout("rdi") dst => _, in("al") byte as u8, options(nostack, preserves_flags));
    }
    dst
}

/// # Safety
/// As memcmp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    for index in 0..len {
        // SAFETY: the caller's promise. Volatile, or the compiler would turn the loop into a call of this function.
        let (x, y) = unsafe { (a.add(index).read_volatile(), b.add(index).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// # Safety
/// As bcmp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { __wrap_memcmp(a, b, len) }
}

/// # Safety
/// As strlen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_strlen(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: the caller's promise. Volatile, as in memcmp.
    while unsafe { text.add(len).read_volatile() } != 0 {
        len += 1;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn overlapping_moves_keep_the_bytes() {
        let model: Vec<u8> = (0..100).collect();
        for (dst, src, len) in [(10, 0, 50), (0, 10, 50), (5, 5, 20), (1, 0, 99), (30, 60, 40)] {
            let mut bytes = model.clone();
            let mut expect = model.clone();
            expect.copy_within(src..src + len, dst);
            // SAFETY: both ranges lie inside the vector.
            unsafe { __wrap_memmove(bytes.as_mut_ptr().add(dst), bytes.as_ptr().add(src), len) };
            assert_eq!(bytes, expect);
        }
    }

    #[test]
    fn the_others_do_what_their_names_say() {
        let mut bytes = [7u8; 9];
        // SAFETY: all ranges lie inside the arrays; the string ends with a zero.
        unsafe {
            __wrap_memset(bytes.as_mut_ptr(), 1, 4);
            assert_eq!(bytes, [1, 1, 1, 1, 7, 7, 7, 7, 7]);
            assert!(__wrap_memcmp(bytes.as_ptr(), bytes.as_ptr().add(4), 2) < 0);
            assert_eq!(__wrap_bcmp(bytes.as_ptr(), bytes.as_ptr().add(1), 3), 0);
            assert_eq!(__wrap_strlen(c"four".as_ptr().cast()), 4);
        }
    }
}
