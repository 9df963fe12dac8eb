//! The blocks of one process by number: the table grows as the recorder reads
//! definitions, while workers look up blocks in it. Entries never move or change.

use std::sync::OnceLock;

use blocks::SharedBlock;
use buffers::flow::ID_BITS;

/// A block that a process has defined.
#[derive(Debug)]
pub(crate) struct DefinedBlock {
    /// `None` where its definition does not hold together.
    pub(crate) block: Option<SharedBlock>,
    /// Its number in the list of blocks, where there is one.
    pub(crate) listed: Option<u32>,
}

/// Blocks of the first part; each part has twice as many as the one before.
const FIRST_BLOCKS: usize = 256;
const PARTS: usize = ID_BITS as usize - FIRST_BLOCKS.ilog2() as usize + 1;

/// The blocks of one process.
#[derive(Debug, Default)]
pub(crate) struct BlockTable {
    parts: [OnceLock<Box<[OnceLock<DefinedBlock>]>>; PARTS],
}

/// The part that has a block, and its place there.
fn place(id: u32) -> (usize, usize) {
    let from_first = id as usize + FIRST_BLOCKS;
    let part = (from_first / FIRST_BLOCKS).ilog2() as usize;
    (part, from_first - (FIRST_BLOCKS << part))
}

impl BlockTable {
    /// The block of that number.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&DefinedBlock> {
        let (part, place) = place(id);
        self.parts.get(part)?.get()?.get(place)?.get()
    }

    /// Adds a block. One that is there stays.
    pub(crate) fn add(&self, id: u32, block: DefinedBlock) {
        let (part, place) = place(id);
        let Some(place_of_part) = self.parts.get(part) else { return };
        let blocks =
            place_of_part.get_or_init(|| (0..FIRST_BLOCKS << part).map(|_| OnceLock::new()).collect());
        if let Some(own) = blocks.get(place) {
            own.get_or_init(|| block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_of_its_own() {
        let table = BlockTable::default();
        let most = (1 << ID_BITS) - 1;
        let numbers = [0, 1, 255, 256, 257, 767, 768, 100_000, most];
        for &id in &numbers {
            assert!(table.get(id).is_none());
            table.add(id, DefinedBlock { block: None, listed: Some(id) });
            table.add(id, DefinedBlock { block: None, listed: None });
        }
        for id in numbers {
            assert_eq!(table.get(id).and_then(|block| block.listed), Some(id));
        }
        assert!(table.get(2).is_none() && table.get(u32::MAX).is_none());
    }
}
