//! LZMA as Simutrace stores it: the length as u64, five bytes of properties, the raw stream.

use std::io::{Read, Write};

use lzma_rust2::{LzmaOptions, LzmaReader, LzmaWriter};

/// As the LZMA SDK's level 4.
const LEVEL: u32 = 4;
const DICTIONARY_BYTES: u32 = 4 << 20;
const HEAD_BYTES: usize = 13;
/// The largest dictionary that is allocated for a reader.
const MAX_DICTIONARY: u32 = 64 << 20;

/// Compresses; `None` where the compressor fails.
pub(crate) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut options = LzmaOptions::with_preset(LEVEL);
    options.dict_size = DICTIONARY_BYTES;
    let mut out = (bytes.len() as u64).to_le_bytes().to_vec();
    out.push(options.get_props());
    out.extend(options.dict_size.to_le_bytes());
    let mut writer = LzmaWriter::new_no_header(out, &options, false).ok()?;
    writer.write_all(bytes).ok()?;
    writer.finish().ok()
}

/// Decompresses exactly `len` bytes; `None` where the content is something else.
pub(crate) fn decompress(stored: &[u8], len: usize) -> Option<Vec<u8>> {
    let (head, stream) = stored.split_at_checked(HEAD_BYTES)?;
    let claimed = u64::from_le_bytes(head[..8].try_into().ok()?);
    let dictionary = u32::from_le_bytes(head[9..13].try_into().ok()?);
    if claimed != len as u64 || dictionary > MAX_DICTIONARY {
        return None;
    }
    let mut out = Vec::new();
    if len > 0 {
        // The dictionary need not be longer than what it can hold.
        let dictionary = dictionary.min(u32::try_from(len.max(4096)).unwrap_or(u32::MAX));
        let mut reader = LzmaReader::new_with_props(stream, claimed, head[8], dictionary, None).ok()?;
        out.try_reserve_exact(len.min(stored.len().saturating_mul(8_000))).ok()?;
        reader.by_ref().take(claimed).read_to_end(&mut out).ok()?;
    }
    (out.len() == len).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip() {
        for bytes in [Vec::new(), vec![7], (0..100_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect()] {
            let stored = compress(&bytes).unwrap();
            assert_eq!(decompress(&stored, bytes.len()).as_deref(), Some(&*bytes));
            assert_eq!(decompress(&stored, bytes.len() + 1), None);
        }
    }
}
