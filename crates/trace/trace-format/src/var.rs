//! Variable-sized data in fixed-size blocks (Simutrace, section 2.2, figure 5; docs/format.md, *Variable-sized data*).

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 64;
const ROOM: usize = BLOCK_BYTES - 2;
const CONTINUATION: u16 = 0x8000;

/// Appends a datum and returns how many blocks it took: at least one.
pub fn put(out: &mut Vec<u8>, data: &[u8]) -> u64 {
    let mut chunks = data.chunks(ROOM);
    let mut blocks = 0;
    while blocks == 0 || chunks.len() > 0 {
        let chunk = chunks.next().unwrap_or(&[]);
        let head = chunk.len() as u16 | if blocks == 0 { 0 } else { CONTINUATION };
        out.extend(head.to_le_bytes());
        out.extend_from_slice(chunk);
        out.resize(out.len() + ROOM - chunk.len(), 0);
        blocks += 1;
    }
    blocks
}

/// The valid bytes of a block and whether it continues the one before; `None` where its head is none.
pub(crate) fn block(bytes: &[u8]) -> Option<(bool, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<2>()?;
    let head = u16::from_le_bytes(*head);
    if head & 0x4000 != 0 {
        return None;
    }
    let valid = rest.get(..usize::from(head & 0x3fff))?;
    rest[valid.len()..].iter().all(|&byte| byte == 0).then_some((head & CONTINUATION != 0, valid))
}

/// The datum whose blocks, and others after them, come from `blocks`; `None` where none starts there or a part is missing.
pub fn get(mut blocks: impl Iterator<Item = Option<[u8; BLOCK_BYTES]>>) -> Option<Vec<u8>> {
    let first = blocks.next()??;
    let (continues, valid) = block(&first)?;
    if continues {
        return None;
    }
    let mut data = valid.to_vec();
    let mut full = valid.len() == ROOM;
    // Only a full block can have a continuation.
    while full {
        let Some(bytes) = blocks.next().flatten() else { break };
        let (continues, valid) = block(&bytes)?;
        if !continues {
            break;
        }
        data.extend_from_slice(valid);
        full = valid.len() == ROOM;
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn data_of_any_length_round_trip(data: Vec<Vec<u8>>) {
            let mut out = Vec::new();
            let mut references = Vec::new();
            for datum in &data {
                references.push(out.len());
                put(&mut out, datum);
            }
            for (datum, &at) in data.iter().zip(&references) {
                let read = get(out[at..].as_chunks().0.iter().copied().map(Some));
                prop_assert_eq!(read.as_deref(), Some(datum.as_slice()));
            }
        }
    }

    #[test]
    fn a_continuation_is_no_start() {
        let mut out = Vec::new();
        assert_eq!(put(&mut out, &[1; 63]), 2);
        assert_eq!(get(out[BLOCK_BYTES..].as_chunks().0.iter().copied().map(Some)), None);
    }

    #[test]
    fn nothing_takes_one_block() {
        assert_eq!(put(&mut Vec::new(), &[]), 1);
    }
}
