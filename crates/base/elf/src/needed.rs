//! The libraries that a dynamically linked file itself names: its DT_NEEDED entries.

use crate::bytes::double;
use crate::{ElfHeader, LinkAddr, SegmentHeader};

/// Bytes of a name that are looked at.
const NAME_BYTES: usize = 64;
/// Entries that are looked at: linkers write a few dozen.
const MAX_ENTRIES: u64 = 512;
const ENTRY_BYTES: usize = 16;
const NULL: u64 = 0;
const NEEDED: u64 = 1;
const STRING_TABLE: u64 = 5;

/// A library's name, padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededLibrary {
    bytes: [u8; NAME_BYTES],
}

impl NeededLibrary {
    /// The name without its padding.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.bytes.split(|&byte| byte == 0).next().unwrap_or(&[])
    }
}

/// The first library that the file needs of those whose names begin so. `read` fills its bytes from an offset of the file, and tells
/// how many there were.
#[must_use]
pub fn needed_library(read: impl Fn(u64, &mut [u8]) -> usize, prefix: &[u8]) -> Option<NeededLibrary> {
    let mut bytes = [0; ElfHeader::BYTES];
    let len = read(0, &mut bytes);
    let header = ElfHeader::parse(bytes.get(..len)?).ok()?;
    let segments = || {
        (0..header.segment_count).filter_map(|index| {
            let mut bytes = [0; SegmentHeader::BYTES];
            let len = read(header.segment_at(index)?, &mut bytes);
            SegmentHeader::parse(bytes.get(..len)?)
        })
    };
    let dynamic = segments().find(|segment| segment.kind == libc::PT_DYNAMIC)?;
    let entries = || {
        (0..MAX_ENTRIES.min(dynamic.file_bytes / ENTRY_BYTES as u64)).map_while(|index| {
            let mut bytes = [0; ENTRY_BYTES];
            let at = dynamic.offset.checked_add(index * ENTRY_BYTES as u64)?;
            let is_whole = read(at, &mut bytes) == ENTRY_BYTES;
            let (tag, value) = (double(&bytes, 0)?, double(&bytes, 8)?);
            (is_whole && tag != NULL).then_some((tag, value))
        })
    };
    let table = entries().find(|(tag, _)| *tag == STRING_TABLE).map(|(_, value)| LinkAddr(value))?;
    let load = segments().find(|segment| {
        segment.kind == libc::PT_LOAD
            && (segment.start..segment.start.saturating_offset(segment.file_bytes)).contains(&table)
    })?;
    let table_at = table.checked_sub(load.start)?.checked_add(load.offset)?;
    entries().filter(|(tag, _)| *tag == NEEDED).find_map(|(_, name)| {
        let mut bytes = [0; NAME_BYTES];
        read(table_at.checked_add(name)?, &mut bytes);
        // A name that is longer is none that is looked for.
        let end = bytes.iter().position(|&byte| byte == 0)?;
        bytes.get_mut(end..)?.fill(0);
        bytes.starts_with(prefix).then_some(NeededLibrary { bytes })
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_program_needs_its_c_library_and_no_other_one() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let read = |at, bytes: &mut [u8]| file.read_at(bytes, at).unwrap_or(0);
        let library = needed_library(read, b"libc.so").unwrap();
        assert_eq!(library.name(), b"libc.so.6");
        assert_eq!(needed_library(read, b"libnowhere"), None);
        assert_eq!(needed_library(|_, _| 0, b""), None);
    }
}
