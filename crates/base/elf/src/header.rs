//! The header at the beginning of a file.

use crate::bytes::{double, half};
use crate::{LinkAddr, SegmentHeader};

const MAGIC: &[u8] = b"\x7fELF";
/// The byte that says how wide addresses are, and what it says of 32 and 64 bits.
const CLASS_AT: usize = 4;
const CLASS_32: u8 = 1;
const CLASS_64: u8 = 2;
/// The byte that says in which order numbers are written, and what it says of the two.
const ORDER_AT: usize = 5;
const LITTLE_ENDIAN: u8 = 1;
const BIG_ENDIAN: u8 = 2;
const MACHINE_AT: usize = 18;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfHeader {
    /// Addresses in the file are those in memory: a program that can't be moved.
    pub is_fixed: bool,
    /// Address of the first instruction.
    pub entry: LinkAddr,
    /// Place of the segments' headers in the file.
    pub segments_at: u64,
    /// Bytes from one of them to the next.
    pub segment_bytes: u16,
    /// How many there are.
    pub segment_count: u16,
}

/// Why a file is none of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfRefusal {
    /// It is no ELF file, or ends within its header.
    NotElf,
    /// It has addresses of 32 bits.
    Bits32,
    /// It is for another processor, by ELF's number of that.
    OtherProcessor(u16),
}

impl ElfHeader {
    /// Bytes that the header has.
    pub const BYTES: usize = 64;

    /// Reads what a file begins with, at least [`Self::BYTES`].
    ///
    /// # Errors
    /// Where it is no file for this processor.
    pub fn parse(bytes: &[u8]) -> Result<Self, ElfRefusal> {
        let kind = (bytes.get(CLASS_AT), bytes.get(ORDER_AT));
        let (Some(&class), Some(&order), true) = (kind.0, kind.1, bytes.starts_with(MAGIC)) else {
            return Err(ElfRefusal::NotElf);
        };
        if class == CLASS_32 {
            return Err(ElfRefusal::Bits32);
        }
        let machine = half(bytes, MACHINE_AT).ok_or(ElfRefusal::NotElf)?;
        match (class, order) {
            (CLASS_64, LITTLE_ENDIAN) if machine == libc::EM_X86_64 => {}
            (CLASS_64, LITTLE_ENDIAN) => return Err(ElfRefusal::OtherProcessor(machine)),
            (CLASS_64, BIG_ENDIAN) => return Err(ElfRefusal::OtherProcessor(machine.swap_bytes())),
            _ => return Err(ElfRefusal::NotElf),
        }
        Self::fields(bytes).ok_or(ElfRefusal::NotElf)
    }

    fn fields(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..Self::BYTES)?;
        Some(Self {
            is_fixed: half(bytes, 16)? == libc::ET_EXEC,
            entry: LinkAddr(double(bytes, 24)?),
            segments_at: double(bytes, 32)?,
            segment_bytes: half(bytes, 54)?,
            segment_count: half(bytes, 56)?,
        })
    }

    /// Place of one of the segments' headers in the file; `None` where no file has such a place.
    #[must_use]
    pub fn segment_at(&self, index: u16) -> Option<u64> {
        let is_one = usize::from(self.segment_bytes) >= SegmentHeader::BYTES && index < self.segment_count;
        self.segments_at.checked_add(u64::from(index) * u64::from(self.segment_bytes)).filter(|_| is_one)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    /// A header of that class, order and processor.
    fn header(class: u8, order: u8, machine: [u8; 2]) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, order]);
        bytes[18..20].copy_from_slice(&machine);
        bytes[54] = 56;
        bytes[56] = 3;
        bytes
    }

    #[test]
    fn files_of_other_processors_are_refused_by_what_they_are() {
        let check = |bytes: &[u8], expect| assert_eq!(ElfHeader::parse(bytes).unwrap_err(), expect);
        check(b"", ElfRefusal::NotElf);
        check(b"#!/bin/sh", ElfRefusal::NotElf);
        check(&header(9, 1, [62, 0]), ElfRefusal::NotElf);
        check(&header(2, 9, [62, 0]), ElfRefusal::NotElf);
        check(&header(2, 1, [62, 0])[..63], ElfRefusal::NotElf);
        check(&header(1, 1, [3, 0]), ElfRefusal::Bits32);
        check(&header(2, 1, [183, 0]), ElfRefusal::OtherProcessor(183));
        check(&header(2, 2, [0, 21]), ElfRefusal::OtherProcessor(21));
    }

    #[test]
    fn places_that_no_file_has_are_none() {
        let read = ElfHeader::parse(&header(2, 1, [62, 0])).unwrap();
        assert_eq!((read.segment_at(0), read.segment_at(2), read.segment_at(3)), (Some(0), Some(112), None));
        assert_eq!(ElfHeader { segments_at: u64::MAX - 8, ..read }.segment_at(1), None);
        assert_eq!(ElfHeader { segment_bytes: 55, ..read }.segment_at(0), None);
    }

    #[test]
    fn the_tests_own_program_is_one() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let header = ElfHeader::parse(&bytes).unwrap();
        let segments: std::vec::Vec<SegmentHeader> = (0..header.segment_count)
            .map(|index| SegmentHeader::parse(&bytes[header.segment_at(index).unwrap() as usize..]).unwrap())
            .collect();
        let code = segments.iter().find(|segment| segment.kind == libc::PT_LOAD && segment.is_executable());
        let code = code.expect("code");
        assert_eq!(code.protection(), libc::PROT_READ | libc::PROT_EXEC);
        assert!((code.start..code.start.offset(code.memory_bytes)).contains(&header.entry));
        assert!(segments.iter().all(|segment| segment.offset + segment.file_bytes <= bytes.len() as u64));
    }
}
