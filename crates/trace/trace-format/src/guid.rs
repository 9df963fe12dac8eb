//! Globally unique identifiers of sessions and entry types.

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
};

/// 16 bytes in the order in which the text form shows them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// A new one, from the standard library's random seeds.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        for half in bytes.chunks_exact_mut(8) {
            half.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
        }
        // Version 4, variant 1 (RFC 4122).
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// The GUID of one of memtap's own entry types (docs/format.md, *Entry types*).
    pub(crate) const fn of_type(number: u8) -> Self {
        Self([0x6d, 0x74, 0, number, 0x6d, 0x65, 0x6d, 0x74, 0x61, 0x70, 0, 0, 0, 0, 0, 1])
    }

    /// The first 8 bytes, which every frame of a session repeats.
    pub(crate) fn session_key(self) -> u64 {
        u64::from_le_bytes(self.0[..8].try_into().expect("8 of 16 bytes"))
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_guids_read_as_specified() {
        assert_eq!(Guid::of_type(6).to_string(), "6d740006-6d65-6d74-6170-000000000001");
    }

    #[test]
    fn random_guids_differ() {
        assert_ne!(Guid::random(), Guid::random());
    }
}
