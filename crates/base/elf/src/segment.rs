//! The header of a segment: a range of bytes of the file, and where it is placed in memory.

use crate::LinkAddr;
use crate::bytes::{double, word};

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// `PT_LOAD`, `PT_INTERP`, and others.
    pub kind: u32,
    /// `PF_R`, `PF_W`, `PF_X`.
    pub flags: u32,
    /// Place in the file.
    pub offset: u64,
    /// Address of the first byte.
    pub start: LinkAddr,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Bytes in memory; those that the file lacks are zero.
    pub memory_bytes: u64,
}

impl SegmentHeader {
    /// Bytes that the header has.
    pub const BYTES: usize = 56;

    /// Reads what `bytes` begin with; `None` where they end before.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..Self::BYTES)?;
        Some(Self {
            kind: word(bytes, 0)?,
            flags: word(bytes, 4)?,
            offset: double(bytes, 8)?,
            start: LinkAddr(double(bytes, 16)?),
            file_bytes: double(bytes, 32)?,
            memory_bytes: double(bytes, 40)?,
        })
    }

    /// Whether it may be read.
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        self.flags & libc::PF_R != 0
    }

    /// Whether it may be written.
    #[must_use]
    pub const fn is_writable(&self) -> bool {
        self.flags & libc::PF_W != 0
    }

    /// Whether it may be executed.
    #[must_use]
    pub const fn is_executable(&self) -> bool {
        self.flags & libc::PF_X != 0
    }

    /// What its flags stand for, as mmap takes it.
    #[must_use]
    pub fn protection(&self) -> i32 {
        let rights = [
            (self.is_readable(), libc::PROT_READ),
            (self.is_writable(), libc::PROT_WRITE),
            (self.is_executable(), libc::PROT_EXEC),
        ];
        rights.iter().fold(0, |all, (is_given, right)| if *is_given { all | right } else { all })
    }
}
