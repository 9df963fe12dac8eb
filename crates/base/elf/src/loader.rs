//! The loader named by a program, and the C library to which it belongs.

/// Bytes of its path that are looked at.
pub const LOADER_BYTES: usize = 256;

/// Whether that is the path of the loader of another C library than GNU's, which can't take in libraries that are made for that one. The
/// path is as the file has it, with its zero or without.
///
/// ```
/// assert!(elf::is_of_other_library(b"/lib/ld-musl-x86_64.so.1\0"));
/// assert!(!elf::is_of_other_library(b"/lib64/ld-linux-x86-64.so.2\0"));
/// ```
#[must_use]
pub fn is_of_other_library(path: &[u8]) -> bool {
    let path = path.split(|&byte| byte == 0).next().unwrap_or(&[]);
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    // musl, uClibc, Android's.
    [b"ld-musl".as_slice(), b"ld-uClibc", b"ld64-uClibc", b"linker64"]
        .iter()
        .any(|start| name.starts_with(start))
}
