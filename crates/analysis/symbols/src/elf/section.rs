//! Sections and segments: what each range of a file's addresses is used for.

use elf::LinkAddr;
use memref::RegionKind;

/// A stretch of the file that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Address of the first byte.
    pub address: LinkAddr,
    /// Bytes in memory.
    pub bytes: u64,
    /// Bit 0 read, bit 1 write, bit 2 execute.
    pub rights: u8,
}

/// Bytes of a file that are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// Offset of the first byte.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
}

impl Segment {
    /// What the file has from an address to the segment's end; `None` where it has nothing there.
    pub(crate) fn rest_at(&self, address: LinkAddr) -> Option<FilePlace> {
        let into = address.checked_sub(self.address).filter(|into| *into < self.file_bytes)?;
        Some(FilePlace { offset: self.file_offset.checked_add(into)?, bytes: self.file_bytes - into })
    }
}

/// What the bytes of a section are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SectionKind {
    /// Code.
    Text,
    /// Initialised data.
    Data,
    /// Data without initial values.
    Bss,
    /// Data that never changes.
    Rodata,
    /// Data that changes only when it is relocated at start-up.
    Relro,
    /// Initial values of thread-local variables, and their zeros.
    Tls,
}

impl SectionKind {
    /// The region that such bytes are counted to.
    pub const fn region(self) -> RegionKind {
        match self {
            Self::Text => RegionKind::Text,
            Self::Data => RegionKind::Data,
            Self::Bss => RegionKind::Bss,
            Self::Rodata | Self::Relro => RegionKind::Rodata,
            Self::Tls => RegionKind::Tls,
        }
    }
}

/// A section that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name, with the dot.
    pub name: Box<str>,
    /// Address of the first byte.
    pub address: LinkAddr,
    /// Bytes.
    pub bytes: u64,
    /// What it is for.
    pub kind: SectionKind,
}
