//! Sections and segments: what a file's addresses are for.

use memref::RegionKind;

/// A stretch of the file that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Address of the first byte, before relocation.
    pub address: u64,
    /// Bytes in memory.
    pub bytes: u64,
    /// Bit 0 read, bit 1 write, bit 2 execute.
    pub rights: u8,
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
    /// Address of the first byte, before relocation.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// What it is for.
    pub kind: SectionKind,
}
