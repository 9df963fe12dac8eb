//! Contents of the modelled memory, as far as they are ever read: the tags of blocks.

use crate::tlsf::TagWord;

/// Tags by block, in an open hash table.
#[derive(Clone, Debug)]
pub struct TagMap {
    entries: Vec<TagLine>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct TagLine {
    block: u64,
    words: [u64; 4],
}

const EMPTY: u64 = u64::MAX;

impl Default for TagMap {
    fn default() -> Self {
        Self { entries: vec![TagLine { block: EMPTY, words: [0; 4] }; 1024], len: 0 }
    }
}

impl TagMap {
    #[inline]
    fn place(&self, block: u64) -> usize {
        let hash = (block >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (self.entries.len() - 1)
    }

    #[inline]
    fn slot(&self, block: u64) -> usize {
        let mask = self.entries.len() - 1;
        let mut place = self.place(block);
        while self.entries[place].block != block && self.entries[place].block != EMPTY {
            place = (place + 1) & mask;
        }
        place
    }

    /// A word of a tag, or `None` where there is none.
    #[inline]
    pub fn get(&self, block: u64, field: TagWord) -> Option<u64> {
        let entry = &self.entries[self.slot(block)];
        (entry.block == block).then(|| entry.words[field as usize])
    }

    /// Writes one.
    #[inline]
    pub fn set(&mut self, block: u64, field: TagWord, word: u64) {
        let mut slot = self.slot(block);
        if self.entries[slot].block == EMPTY {
            if self.len * 2 >= self.entries.len() {
                self.grow();
                slot = self.slot(block);
            }
            self.len += 1;
            self.entries[slot] = TagLine { block, words: [0; 4] };
        }
        self.entries[slot].words[field as usize] = word;
    }

    /// Forgets a tag.
    pub fn erase(&mut self, block: u64) {
        let mask = self.entries.len() - 1;
        let mut hole = self.slot(block);
        if self.entries[hole].block != block {
            return;
        }
        self.len -= 1;
        // Those after that were pushed on by it move up.
        let mut at = (hole + 1) & mask;
        while self.entries[at].block != EMPTY {
            let home = self.place(self.entries[at].block);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.entries[hole] = self.entries[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.entries[hole].block = EMPTY;
    }

    fn grow(&mut self) {
        let larger = vec![TagLine { block: EMPTY, words: [0; 4] }; self.entries.len() * 2];
        for entry in std::mem::replace(&mut self.entries, larger) {
            if entry.block != EMPTY {
                let slot = self.slot(entry.block);
                self.entries[slot] = entry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use std::collections::HashMap;

    #[test]
    fn tags_are_those_of_a_map() {
        let (mut tags, mut model) = (TagMap::default(), HashMap::new());
        let mut random = Random::new(1);
        for _ in 0..300_000 {
            let block = random.below(4000) * 16;
            match random.below(3) {
                0 => {
                    tags.set(block, TagWord::Size, random.bits() >> 1);
                    model.insert(block, tags.get(block, TagWord::Size));
                }
                1 => {
                    tags.erase(block);
                    model.remove(&block);
                }
                _ => assert_eq!(tags.get(block, TagWord::Size), model.get(&block).copied().flatten()),
            }
        }
    }
}
