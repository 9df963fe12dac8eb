//! A line of /proc/PID/maps: the address range of a mapping, its access rights, and what it maps.

use crate::number;

/// One line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First byte.
    pub start: u64,
    /// After the last byte.
    pub end: u64,
    /// PROT_READ, PROT_WRITE and PROT_EXEC, as mmap takes them.
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

impl<'a> Mapping<'a> {
    /// Reads one line, without its end.
    ///
    /// ```
    /// let line = b"7f1200000000-7f1200001000 r-xp 00002000 fe:01 1234    /lib/a b.so";
    /// let mapping = proc_files::Mapping::parse(line).unwrap();
    /// assert!(mapping.is_executable() && mapping.contains(0x7f12_0000_0fff));
    /// assert_eq!(mapping.name, b"/lib/a b.so");
    /// ```
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let (start, rest) = number(line, 16)?;
        let (end, rest) = number(rest.strip_prefix(b"-")?, 16)?;
        let rest = rest.strip_prefix(b" ")?;
        let flags = rest.get(..4)?;
        let mut prot = 0;
        for (flag, bit) in flags.iter().zip([libc::PROT_READ, libc::PROT_WRITE, libc::PROT_EXEC]) {
            if *flag != b'-' {
                prot |= bit;
            }
        }
        let (offset, rest) = number(rest.get(5..)?, 16)?;
        let (major, rest) = number(rest.strip_prefix(b" ")?, 16)?;
        let (minor, rest) = number(rest.strip_prefix(b":")?, 16)?;
        let (inode, rest) = number(rest.strip_prefix(b" ")?, 10)?;
        let blanks = rest.iter().take_while(|&&byte| byte == b' ').count();
        Some(Self {
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

    /// Whether it has that address.
    #[must_use]
    pub const fn contains(&self, addr: u64) -> bool {
        self.start <= addr && addr < self.end
    }

    /// Whether it may be read.
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        self.prot & libc::PROT_READ != 0
    }

    /// Whether it may be written.
    #[must_use]
    pub const fn is_writable(&self) -> bool {
        self.prot & libc::PROT_WRITE != 0
    }

    /// Whether it may be executed.
    #[must_use]
    pub const fn is_executable(&self) -> bool {
        self.prot & libc::PROT_EXEC != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = b"7f1200000000-7f1200001000 r-xp 00002000 fe:01 1234                       /lib/a b.so";
        assert_eq!(
            Mapping::parse(line),
            Some(Mapping {
                start: 0x7f12_0000_0000,
                end: 0x7f12_0000_1000,
                prot: libc::PROT_READ | libc::PROT_EXEC,
                shared: false,
                offset: 0x2000,
                device: 0xfe01,
                inode: 1234,
                name: b"/lib/a b.so",
            })
        );
        let shared = Mapping::parse(b"00400000-00401000 rw-s 00000000 00:00 0 ").unwrap();
        assert!(shared.shared && shared.is_writable() && !shared.is_executable() && shared.name.is_empty());
        assert!(shared.contains(0x40_0000) && !shared.contains(0x40_1000));
    }

    #[test]
    fn what_is_no_line_is_none() {
        for line in ["", "nonsense", "00400000-00401000", "00400000-00401000 rw", "x-y rw-p 0 0:0 0"] {
            assert_eq!(Mapping::parse(line.as_bytes()), None, "{line}");
        }
    }
}
