//! Little-endian integers, varints and strings, read with bounds checks.

/// Reads from the front of a slice; `None` where it is too short.
pub(crate) struct ByteReader<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// What was not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*front)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|bytes| bytes[0])
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A string: its length u16, then its bytes.
    pub(crate) fn string(&mut self) -> Option<String> {
        let len = self.u16()?;
        String::from_utf8(self.take(len.into())?.to_vec()).ok()
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // The tenth byte carries one bit.
                return (shift < 63 || byte < 2).then_some(value);
            }
        }
        None
    }
}

/// Appends a varint.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a string: its length u16, then its bytes. Strings are cut at 65,535 bytes (at a character).
pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    let mut len = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    out.extend((len as u16).to_le_bytes());
    out.extend(&text.as_bytes()[..len]);
}

/// The u64 at an offset of an entry; 0 where the entry is too short.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The u32 at an offset of an entry; 0 where the entry is too short.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|half| half.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// An entry of `N` bytes that consists of whole words.
pub(crate) fn put_words<const N: usize>(words: &[u64]) -> [u8; N] {
    let mut bytes = [0; N];
    for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes
}

/// Small numbers for small differences of either sign.
#[inline]
pub(crate) fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub(crate) fn unzigzag(code: u64) -> u64 {
    (code >> 1) ^ (code & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_and_zigzag_round_trip(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut reader = ByteReader::new(&out);
            prop_assert_eq!(reader.varint(), Some(value));
            prop_assert!(reader.is_empty());
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }

        #[test]
        fn varints_of_any_bytes_do_not_panic(bytes: Vec<u8>) {
            let _ = ByteReader::new(&bytes).varint();
        }
    }

    #[test]
    fn varints_longer_than_64_bits_are_refused() {
        assert_eq!(ByteReader::new(&[0xff; 11]).varint(), None);
        assert_eq!(
            ByteReader::new(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]).varint(),
            None
        );
    }

    #[test]
    fn long_strings_are_cut_at_a_character() {
        let mut out = Vec::new();
        put_string(&mut out, &"é".repeat(40_000));
        assert_eq!(ByteReader::new(&out).string().map(|text| text.len()), Some(65_534));
    }
}
