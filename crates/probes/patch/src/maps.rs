//! Looks up an address in `/proc/self/maps`, without allocating.
//!
//! Deliberately minimal: ranges and rights, no names.

use crate::{PAGE_BYTES, sys};

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: usize,
    /// One past the last address.
    pub end: usize,
    /// Readable.
    pub readable: bool,
    /// Writable.
    pub writable: bool,
    /// Executable.
    pub executable: bool,
    /// Shared with others (a write would change their copy, or the file).
    pub shared: bool,
}

/// Calls `visit` for each mapping, lowest first, until it returns `false`.
pub fn for_each(mut visit: impl FnMut(Mapping) -> bool) {
    let path = c"/proc/self/maps";
    // SAFETY: the path is NUL-terminated and outlives the call.
    let fd = unsafe {
        sys::syscall(
            libc::SYS_openat,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                (libc::O_RDONLY | libc::O_CLOEXEC) as usize,
                0,
                0,
                0,
            ],
        )
    };
    if fd < 0 {
        return;
    }
    let mut buffer = [0u8; PAGE_BYTES];
    let mut filled = 0;
    let mut wanted = true;
    while wanted {
        let room = buffer.len() - filled;
        // SAFETY: the kernel writes at most `room` bytes after the `filled` ones.
        let got = unsafe {
            sys::syscall(libc::SYS_read, [fd as usize, buffer.as_mut_ptr() as usize + filled, room, 0, 0, 0])
        };
        if got <= 0 {
            break;
        }
        filled += got as usize;
        let mut start = 0;
        while let Some(len) = buffer[start..filled].iter().position(|b| *b == b'\n') {
            if let Some(mapping) = parse(&buffer[start..start + len])
                && !visit(mapping)
            {
                wanted = false;
                break;
            }
            start += len + 1;
        }
        if start == 0 && filled == buffer.len() {
            filled = 0; // a line longer than the buffer: only its name can be, drop the rest
            continue;
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
    }
    // SAFETY: the descriptor is ours.
    unsafe { sys::syscall(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// The mapping that covers `addr`.
#[must_use]
pub fn find(addr: usize) -> Option<Mapping> {
    let mut found = None;
    for_each(|mapping| {
        if (mapping.start..mapping.end).contains(&addr) {
            found = Some(mapping);
        }
        mapping.end <= addr
    });
    found
}

fn parse(line: &[u8]) -> Option<Mapping> {
    let mapping = proc_files::Mapping::parse(line)?;
    Some(Mapping {
        start: mapping.start as usize,
        end: mapping.end as usize,
        readable: mapping.is_readable(),
        writable: mapping.is_writable(),
        executable: mapping.is_executable(),
        shared: mapping.shared,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let got = parse(b"7f00a000-7f00b000 r-xp 00000000 08:01 123 /lib/x.so").unwrap();
        let want = Mapping {
            start: 0x7f00_a000,
            end: 0x7f00_b000,
            readable: true,
            writable: false,
            executable: true,
            shared: false,
        };
        assert_eq!(got, want);
        assert_eq!(parse(b"rubbish"), None);
    }

    #[test]
    fn own_code_is_executable_and_own_stack_is_not() {
        let code = find(a_line_is_read as fn() as usize).unwrap();
        assert!(code.executable && !code.shared);
        let local = 0u8;
        let stack = find(&raw const local as usize).unwrap();
        assert!(stack.writable && !stack.executable);
        assert_eq!(find(8), None);
    }
}
