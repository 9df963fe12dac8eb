//! The blocks of a process by their numbers, shared between who adds them and who codes what was executed.
//!
//! Blocks are only added, and one that is there stays as it is, so that nobody waits for anybody. Numbers are given out one after the
//! other: they are in buckets, each twice as large as the one before it, which come as they are needed.

use std::sync::OnceLock;

use blocks::SharedBlock;
use buffers::flow::ID_BITS;

/// Blocks of the first bucket: two to this power.
const FIRST_BITS: u32 = 6;
const BUCKETS: usize = (ID_BITS + 1 - FIRST_BITS) as usize;

type Bucket = Box<[OnceLock<SharedBlock>]>;

/// Blocks by their numbers.
#[derive(Debug, Default)]
pub(crate) struct BlockTable {
    buckets: [OnceLock<Bucket>; BUCKETS],
}

/// Where a number is.
struct BlockPlace {
    bucket: usize,
    index: usize,
}

impl BlockPlace {
    #[inline]
    fn of(id: u32) -> Self {
        let number = u64::from(id) + (1 << FIRST_BITS);
        let bits = number.ilog2();
        Self { bucket: (bits - FIRST_BITS) as usize, index: (number - (1 << bits)) as usize }
    }
}

impl BlockTable {
    /// The block of that number.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&SharedBlock> {
        let place = BlockPlace::of(id);
        self.buckets.get(place.bucket)?.get()?.get(place.index)?.get()
    }

    /// Adds a block. Whether there was none of that number, which is below two to the power of [`ID_BITS`].
    pub(crate) fn add(&self, id: u32, block: SharedBlock) -> bool {
        let place = BlockPlace::of(id);
        let Some(bucket) = self.buckets.get(place.bucket) else { return false };
        let len = 1 << (FIRST_BITS as usize + place.bucket);
        let bucket = bucket.get_or_init(|| (0..len).map(|_| OnceLock::new()).collect());
        bucket.get(place.index).is_some_and(|free| free.set(block).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use blocks::{
        BasicBlock, BlockAccess, Definition, Extent, MAX_DEFINITION_BYTES, RecordedValues, encode_definition,
    };
    use memref::VirtAddr;

    use super::*;

    fn block(instructions: u16) -> SharedBlock {
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let extent = Extent::of(VirtAddr(64), instructions);
        let len = encode_definition(0, extent, RecordedValues::plain(0), &[BlockAccess::NONE], &mut bytes);
        BasicBlock::new(&Definition::decode(&bytes[..len]).unwrap().0).unwrap().into()
    }

    #[test]
    fn each_number_has_a_place_and_keeps_its_first_block() {
        let table = BlockTable::default();
        let numbers = [0, 1, 63, 64, 191, 192, 100_000, (1 << ID_BITS) - 1];
        for (number, instructions) in numbers.into_iter().zip(1..) {
            assert!(table.get(number).is_none());
            assert!(table.add(number, block(instructions)));
            assert!(!table.add(number, block(99)));
        }
        for (number, instructions) in numbers.into_iter().zip(1..) {
            assert_eq!(table.get(number).unwrap().instructions(), instructions);
        }
        assert!(table.get(2).is_none() && table.get(u32::MAX).is_none());
    }
}
