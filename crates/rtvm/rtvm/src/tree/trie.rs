//! A 64-ary bit trie: one bit per page, and above it one bit for each word that is not zero.

use super::VirtualRegionsTree;
use crate::WordStore;

/// 64^5 = 2^30 pages.
const MOST_LEVELS: usize = 5;

/// The trie. 133,160 bytes at 2^20 pages; find touches at most `2 * levels - 1` words. Split and union touch
/// exactly `2 * levels`, whatever is in the tree: they could stop at the first word that stays not zero, and would then take
/// a time that depends on where other regions begin.
#[derive(Clone, Debug)]
pub struct BitTrie<S> {
    words: S,
    /// Where each level begins, the pages' own bits first.
    starts: [usize; MOST_LEVELS],
    levels: usize,
    pages: u32,
}

impl<S: WordStore<u64>> BitTrie<S> {
    /// Words that `pages` pages need.
    pub fn words_for(pages: u32) -> usize {
        Self::layout(pages).2
    }

    fn layout(pages: u32) -> ([usize; MOST_LEVELS], usize, usize) {
        let mut starts = [0; MOST_LEVELS];
        let (mut words, mut level, mut size) = (0, 0, pages as usize);
        loop {
            starts[level] = words;
            size = size.div_ceil(64);
            words += size;
            level += 1;
            if size <= 1 || level == MOST_LEVELS {
                return (starts, level, words);
            }
        }
    }

    /// A trie over words that are all zero.
    ///
    /// # Panics
    /// Where `words` is too short, or there are more than 2^30 pages.
    pub fn new(words: S, pages: u32) -> Self {
        let (starts, levels, len) = Self::layout(pages);
        assert!(pages <= 1 << 30 && words.len() >= len, "{len} words for {pages} pages");
        Self { words, starts, levels, pages }
    }

    /// Levels, which is what bounds every operation.
    pub fn levels(&self) -> usize {
        self.levels
    }
}

impl<S: WordStore<u64>> VirtualRegionsTree for BitTrie<S> {
    fn pages(&self) -> u32 {
        self.pages
    }

    #[inline]
    fn find(&self, page: u32) -> Option<u32> {
        let mut place = page as usize;
        let word = self.words.load(place >> 6) << (63 - (place & 63));
        if word != 0 {
            return Some(page - word.leading_zeros());
        }
        for level in 1..self.levels {
            place >>= 6;
            let below = (1u64 << (place & 63)) - 1;
            let word = self.words.load(self.starts[level] + (place >> 6)) & below;
            if word != 0 {
                let mut found = place & !63 | word.ilog2() as usize;
                for down in (0..level).rev() {
                    // A set bit above stands for a word that is not zero.
                    let word = self.words.load(self.starts[down] + found);
                    found = found << 6 | (63 - word.leading_zeros() as usize) & 63;
                }
                return Some(found as u32);
            }
        }
        None
    }

    #[inline]
    fn split(&mut self, page: u32) -> bool {
        let mut place = page as usize;
        let mut new = false;
        for level in 0..self.levels {
            let index = self.starts[level] + (place >> 6);
            let word = self.words.load(index);
            let bit = 1u64 << (place & 63);
            new |= level == 0 && word & bit == 0;
            // Above a word that is not zero the bit is set already; writing it again keeps the touches constant.
            self.words.store(index, word | bit);
            place >>= 6;
        }
        new
    }

    #[inline]
    fn union(&mut self, page: u32) -> bool {
        let mut place = page as usize;
        let mut clear = true;
        let mut was = false;
        for level in 0..self.levels {
            let index = self.starts[level] + (place >> 6);
            let word = self.words.load(index);
            let bit = 1u64 << (place & 63);
            was |= level == 0 && word & bit != 0;
            let left = if clear { word & !bit } else { word };
            self.words.store(index, left);
            clear = left == 0;
            place >>= 6;
        }
        was
    }

    #[inline]
    fn is_start(&self, page: u32) -> bool {
        self.words.load(page as usize >> 6) >> (page & 63) & 1 != 0
    }

    fn bytes(&self) -> usize {
        Self::words_for(self.pages) * size_of::<u64>()
    }
}
