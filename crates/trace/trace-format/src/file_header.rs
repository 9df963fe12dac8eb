//! The 64 bytes at the front of a trace (docs/format.md, *File header*).

use xxhash_rust::xxh3::xxh3_64;

use crate::{FORMAT_VERSION, Guid};

/// Bytes of the header.
pub(crate) const BYTES: usize = 64;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// The format's version; what is written is always the newest.
    pub(crate) version: u16,
    pub(crate) session: Guid,
    pub(crate) created_ns: u64,
}

/// Why a header is not understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotATrace,
    Damaged,
    Newer(u16),
}

impl FileHeader {
    /// What a trace begins with.
    pub(crate) const MAGIC: [u8; 8] = *b"\x89memtap\n";

    pub(crate) fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&Self::MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.session.0);
        bytes[32..40].copy_from_slice(&self.created_ns.to_le_bytes());
        let checksum = xxh3_64(&bytes[..56]);
        bytes[56..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; BYTES]) -> Result<Self, Refusal> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        if bytes[..8] != Self::MAGIC {
            return Err(Refusal::NotATrace);
        }
        if word(56) != xxh3_64(&bytes[..56]) {
            return Err(Refusal::Damaged);
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        let flags = word(8) >> 32;
        if !(1..=FORMAT_VERSION).contains(&version) || flags != 0 {
            return Err(Refusal::Newer(version));
        }
        let session = Guid(bytes[16..32].try_into().expect("16 bytes"));
        Ok(Self { version, session, created_ns: word(32) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_every_flipped_bit_is_found() {
        let header = FileHeader { version: FORMAT_VERSION, session: Guid([7; 16]), created_ns: 9 };
        let bytes = header.to_bytes();
        assert_eq!(FileHeader::from_bytes(&bytes), Ok(header));
        for bit in 0..BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(FileHeader::from_bytes(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn newer_versions_are_named() {
        let mut bytes =
            FileHeader { version: FORMAT_VERSION, session: Guid([7; 16]), created_ns: 9 }.to_bytes();
        bytes[8] = FORMAT_VERSION as u8 + 1;
        let checksum = xxh3_64(&bytes[..56]);
        bytes[56..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(FileHeader::from_bytes(&bytes), Err(Refusal::Newer(FORMAT_VERSION + 1)));
    }
}
