//! The process's mappings, from /proc/self/maps.

use crate::sys;
use crate::text::number;

/// One line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First byte.
    pub start: u64,
    /// After the last byte.
    pub end: u64,
    /// PROT_READ, PROT_WRITE and PROT_EXEC, as in mmap.
    pub prot: i32,
    /// Whether writes are seen by others.
    pub shared: bool,
    /// Offset in the file.
    pub offset: u64,
    /// The device that the file is on, as stat tells it.
    pub device: u64,
    /// The file's number; zero where there is no file.
    pub inode: u64,
    /// Path, or a name in brackets, or nothing.
    pub name: &'a [u8],
}

/// Reads one line.
pub fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let (start, rest) = number(line, 16)?;
    let (end, rest) = number(rest.strip_prefix(b"-")?, 16)?;
    let rest = rest.strip_prefix(b" ")?;
    let flags = rest.get(..4)?;
    let mut prot = 0;
    for (flag, bit) in flags.iter().zip([sys::PROT_READ, sys::PROT_WRITE, sys::PROT_EXEC]) {
        if *flag != b'-' {
            prot |= bit;
        }
    }
    let (offset, rest) = number(rest.get(5..)?, 16)?;
    let (major, rest) = number(rest.strip_prefix(b" ")?, 16)?;
    let (minor, rest) = number(rest.strip_prefix(b":")?, 16)?;
    let (inode, rest) = number(rest.strip_prefix(b" ")?, 10)?;
    let blanks = rest.iter().take_while(|&&byte| byte == b' ').count();
    Some(Mapping {
        start,
        end,
        prot,
        shared: flags.get(3) == Some(&b's'),
        offset,
        device: libc::makedev(major as u32, minor as u32),
        inode,
        name: rest.get(blanks..)?,
    })
}

/// Calls `each` with every mapping, in the order of addresses. Lines longer than 4 KiB are cut. `false` where the list
/// could not be read.
pub fn each(mut each: impl FnMut(Mapping<'_>)) -> bool {
    let Some(file) = sys::open_read(c"/proc/self/maps") else { return false };
    let mut bytes = [0u8; 8192];
    let mut len = 0;
    loop {
        let Some(room) = bytes.get_mut(len..) else { return false };
        let read = file.read(room);
        len += read;
        let Some(mut rest) = bytes.get(..len) else { return false };
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            if let Some(mapping) = rest.get(..end).and_then(parse) {
                each(mapping);
            }
            rest = rest.get(end + 1..).unwrap_or(&[]);
        }
        let left = rest.len();
        if read == 0 {
            return true;
        }
        if left == bytes.len() {
            // One line fills the buffer: no mapping has such a name.
            return false;
        }
        bytes.copy_within(len - left..len, 0);
        len = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = b"7f1200000000-7f1200001000 r-xp 00002000 fe:01 1234                       /lib/a b.so";
        assert_eq!(
            parse(line),
            Some(Mapping {
                start: 0x7f12_0000_0000,
                end: 0x7f12_0000_1000,
                prot: sys::PROT_READ | sys::PROT_EXEC,
                shared: false,
                offset: 0x2000,
                device: 0xfe01,
                inode: 1234,
                name: b"/lib/a b.so",
            })
        );
        assert_eq!(
            parse(b"00400000-00401000 rw-s 00000000 00:00 0 ").map(|m| (m.shared, m.name)),
            Some((true, b"".as_slice()))
        );
        assert_eq!(parse(b"nonsense"), None);
    }

    #[test]
    fn this_process_has_a_stack_and_this_function() {
        let here = this_process_has_a_stack_and_this_function as *const () as u64;
        let (mut stack, mut code) = (false, false);
        assert!(each(|mapping| {
            stack |= mapping.name == b"[stack]";
            code |= mapping.prot & sys::PROT_EXEC != 0 && (mapping.start..mapping.end).contains(&here);
        }));
        assert!(stack && code);
    }
}
