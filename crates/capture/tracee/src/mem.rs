//! The memory functions that the compiler calls.
//!
//! A tracer that exports its own `memcpy` to the program must not call it itself. The library is
//! linked with `--wrap=memcpy` (and so on), which redirects the compiler's calls to this module.
//!
//! Most calls are for less than a few hundred bytes; for these, the processor's string instructions take longer to start than
//! vectors take to finish. Loops are written in assembly, because the compiler would turn them into calls of these same functions.

use core::arch::asm;

/// From so many bytes on, string instructions are as fast.
const LONG_BYTES: usize = 512;

/// Up to 16 bytes, which may overlap: all are read before any is written.
///
/// # Safety
/// As memmove, with `len` of at most 16.
#[inline(always)]
unsafe fn move_short(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: each pair of moves covers the first and the last bytes of `len`, and no others.
    unsafe {
        match len {
            8.. => {
                let (first, last) =
                    (src.cast::<u64>().read_unaligned(), src.add(len - 8).cast::<u64>().read_unaligned());
                dst.cast::<u64>().write_unaligned(first);
                dst.add(len - 8).cast::<u64>().write_unaligned(last);
            }
            4.. => {
                let (first, last) =
                    (src.cast::<u32>().read_unaligned(), src.add(len - 4).cast::<u32>().read_unaligned());
                dst.cast::<u32>().write_unaligned(first);
                dst.add(len - 4).cast::<u32>().write_unaligned(last);
            }
            2.. => {
                let (first, last) =
                    (src.cast::<u16>().read_unaligned(), src.add(len - 2).cast::<u16>().read_unaligned());
                dst.cast::<u16>().write_unaligned(first);
                dst.add(len - 2).cast::<u16>().write_unaligned(last);
            }
            1 => dst.write(src.read()),
            0 => {}
        }
    }
}

/// # Safety
/// As memcpy; the source may also lie behind the destination and overlap it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_memcpy(dst: *mut u8, src: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear in all compiled code. The last 16 bytes are read before any is
    // written, and the loop stops where no more than they are left.
    unsafe {
        if len <= 16 {
            move_short(dst, src, len);
        } else if len < LONG_BYTES {
            let last = src.add(len - 16).cast::<u128>().read_unaligned();
            asm!(
                "2:",
                "movups {vector}, [{src}]",
                "movups [{dst}], {vector}",
                "add {src}, 16",
                "add {dst}, 16",
                "sub {left}, 16",
                "ja 2b",
                src = inout(reg) src => _, dst = inout(reg) dst => _, left = inout(reg) len - 16 => _,
                vector = out(xmm_reg) _, options(nostack),
            );
            dst.add(len - 16).cast::<u128>().write_unaligned(last);
        } else {
            asm!("rep movsb", inout("rcx") len => _, inout("rdi") dst => _, inout("rsi") src => _, options(nostack, preserves_flags));
        }
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
    // SAFETY: the caller's promise. Backwards; the first 16 bytes are read before any is written, and the loop stops where no
    // more than they are left.
    unsafe {
        if len <= 16 {
            move_short(dst, src, len);
        } else {
            let first = src.cast::<u128>().read_unaligned();
            asm!(
                "2:",
                "movups {vector}, [{src} + {left}]",
                "movups [{dst} + {left}], {vector}",
                "sub {left}, 16",
                "ja 2b",
                src = in(reg) src, dst = in(reg) dst, left = inout(reg) len - 16 => _,
                vector = out(xmm_reg) _, options(nostack),
            );
            dst.cast::<u128>().write_unaligned(first);
        }
    }
    dst
}

/// # Safety
/// As memset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_memset(dst: *mut u8, byte: i32, len: usize) -> *mut u8 {
    let eight = u64::from(byte as u8) * 0x0101_0101_0101_0101;
    let sixteen = u128::from(eight) << 64 | u128::from(eight);
    // SAFETY: the caller's promise. Each pair of stores covers the first and the last bytes of `len`, and no others; the loop
    // stops where no more than 16 bytes are left.
    unsafe {
        match len {
            LONG_BYTES.. => {
                asm!("rep stosb", inout("rcx") len => _, inout("rdi") dst => _, in("al") byte as u8, options(nostack, preserves_flags));
            }
            16.. => {
                dst.add(len - 16).cast::<u128>().write_unaligned(sixteen);
                asm!(
                    "2:",
                    "mov [{dst}], {eight}",
                    "mov [{dst} + 8], {eight}",
                    "add {dst}, 16",
                    "sub {left}, 16",
                    "ja 2b",
                    dst = inout(reg) dst => _, left = inout(reg) len - 16 => _, eight = in(reg) eight,
                    options(nostack),
                );
            }
            8.. => {
                dst.cast::<u64>().write_unaligned(eight);
                dst.add(len - 8).cast::<u64>().write_unaligned(eight);
            }
            4.. => {
                dst.cast::<u32>().write_unaligned(eight as u32);
                dst.add(len - 4).cast::<u32>().write_unaligned(eight as u32);
            }
            2.. => {
                dst.cast::<u16>().write_unaligned(eight as u16);
                dst.add(len - 2).cast::<u16>().write_unaligned(eight as u16);
            }
            1 => dst.write(byte as u8),
            0 => {}
        }
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
    fn every_length_and_distance_moves_what_it_should() {
        let model: Vec<u8> = (0..1200u32).map(|at| (at * 7 + at / 251) as u8).collect();
        let lengths = (0..70).chain([127, 128, 129, 255, 256, 257, 500, 511, 512, 513, 530]);
        for len in lengths {
            for distance in [0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 600] {
                for (dst, src) in [(20, 20 + distance), (20 + distance, 20)] {
                    let (mut bytes, mut expect) = (model.clone(), model.clone());
                    expect.copy_within(src..src + len, dst);
                    // SAFETY: both ranges lie inside the vector.
                    let moved =
                        unsafe { __wrap_memmove(bytes.as_mut_ptr().add(dst), bytes.as_ptr().add(src), len) };
                    assert_eq!(moved as usize, bytes.as_ptr() as usize + dst);
                    assert!(bytes == expect, "{len} bytes from {src} to {dst}");
                }
            }
            let (mut bytes, mut expect) = (model.clone(), model.clone());
            expect[33..33 + len].fill(0xa5);
            // SAFETY: the range lies inside the vector.
            unsafe { __wrap_memset(bytes.as_mut_ptr().add(33), 0x1a5, len) };
            assert!(bytes == expect, "{len} bytes set");
            expect[33..33 + len].copy_from_slice(&model[600..600 + len]);
            // SAFETY: two vectors of 1,200 bytes.
            unsafe { __wrap_memcpy(bytes.as_mut_ptr().add(33), model.as_ptr().add(600), len) };
            assert!(bytes == expect, "{len} bytes copied");
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
