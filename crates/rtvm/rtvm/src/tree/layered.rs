//! The paper's layered tree in its compressed form (section IV-A5): van Emde Boas' recursion over a static structure.
//!
//! A node over `2^k` pages with `k > 5` consists of its smallest and its largest member, a summary node over
//! `2^(k/2)` clusters, and the clusters; one with `k <= 5` is a word of bits. Nodes have no pointers: their places
//! follow from their numbers. The smallest member is stored only in the node, so each operation descends only one
//! way and touches O(log log N) words. Members are stored as `1 + member`, so that zeroed words are an empty tree.

use super::VirtualRegionsTree;
use crate::WordStore;

const LEAF_BITS: u32 = 5;
const MOST_BITS: usize = 30;

/// The tree. 143,508 bytes at 2^20 pages (the paper needs 143,756).
#[derive(Clone, Debug)]
pub struct LayeredTree<S> {
    words: S,
    /// Words of a node over `2^k` pages.
    sizes: [usize; MOST_BITS + 1],
    bits: u32,
    pages: u32,
}

/// A node: where it lies and over how many bits.
#[derive(Clone, Copy)]
struct TreeNode {
    at: usize,
    bits: u32,
}

impl TreeNode {
    fn low_bits(self) -> u32 {
        self.bits - self.bits / 2
    }

    fn parts(self, member: u32) -> (u32, u32) {
        (member >> self.low_bits(), member & ((1 << self.low_bits()) - 1))
    }

    fn join(self, high: u32, low: u32) -> u32 {
        high << self.low_bits() | low
    }

    fn is_leaf(self) -> bool {
        self.bits <= LEAF_BITS
    }

    fn summary(self) -> Self {
        Self { at: self.at + 2, bits: self.bits / 2 }
    }
}

fn sizes() -> [usize; MOST_BITS + 1] {
    let mut sizes = [1; MOST_BITS + 1];
    for bits in LEAF_BITS as usize + 1..=MOST_BITS {
        let high = bits / 2;
        sizes[bits] = 2 + sizes[high] + (sizes[bits - high] << high);
    }
    sizes
}

fn bits_for(pages: u32) -> u32 {
    pages.max(2).next_power_of_two().ilog2()
}

impl<S: WordStore<u32>> LayeredTree<S> {
    /// Words that `pages` pages need.
    pub fn words_for(pages: u32) -> usize {
        sizes()[bits_for(pages) as usize]
    }

    /// A tree over words that are all zero.
    ///
    /// # Panics
    /// Where `words` is too short, or there are more than 2^30 pages.
    pub fn new(words: S, pages: u32) -> Self {
        assert!(pages <= 1 << MOST_BITS, "at most 2^30 pages");
        assert!(words.len() >= Self::words_for(pages), "too few words for {pages} pages");
        Self { words, sizes: sizes(), bits: bits_for(pages), pages }
    }

    fn root(&self) -> TreeNode {
        TreeNode { at: 0, bits: self.bits }
    }

    fn cluster(&self, node: TreeNode, high: u32) -> TreeNode {
        let bits = node.low_bits();
        let clusters = node.at + 2 + self.sizes[node.bits as usize / 2];
        TreeNode { at: clusters + high as usize * self.sizes[bits as usize], bits }
    }

    /// The smallest member.
    fn min(&self, node: TreeNode) -> Option<u32> {
        let word = self.words.load(node.at);
        if node.is_leaf() { (word != 0).then(|| word.trailing_zeros()) } else { word.checked_sub(1) }
    }

    /// The largest member.
    fn max(&self, node: TreeNode) -> Option<u32> {
        if node.is_leaf() {
            self.words.load(node.at).checked_ilog2()
        } else {
            self.words.load(node.at + 1).checked_sub(1)
        }
    }

    /// Makes `member` the only one of an empty node.
    fn set_only(&mut self, node: TreeNode, member: u32) {
        if node.is_leaf() {
            self.words.store(node.at, 1 << member);
        } else {
            self.words.store(node.at, member + 1);
            self.words.store(node.at + 1, member + 1);
        }
    }

    fn contains(&self, mut node: TreeNode, mut member: u32) -> bool {
        while !node.is_leaf() {
            match self.min(node) {
                None => return false,
                Some(min) if min == member => return true,
                Some(_) => {
                    let (high, low) = node.parts(member);
                    (node, member) = (self.cluster(node, high), low);
                }
            }
        }
        self.words.load(node.at) >> member & 1 != 0
    }

    fn predecessor(&self, mut node: TreeNode, mut member: u32) -> Option<u32> {
        // What the clusters gone through contribute.
        let mut prefix = 0;
        loop {
            if node.is_leaf() {
                let word = self.words.load(node.at) & (u32::MAX >> (31 - member));
                return word.checked_ilog2().map(|found| prefix | found);
            }
            let min = self.min(node).filter(|&min| min <= member)?;
            if let Some(max) = self.max(node).filter(|&max| max <= member) {
                return Some(prefix | max);
            }
            let (high, low) = node.parts(member);
            let cluster = self.cluster(node, high);
            if self.min(cluster).is_some_and(|first| first <= low) {
                prefix |= high << node.low_bits();
                (node, member) = (cluster, low);
                continue;
            }
            let before = high.checked_sub(1).and_then(|high| self.predecessor(node.summary(), high));
            let found = before.and_then(|high| {
                let last = self.max(self.cluster(node, high))?;
                Some(node.join(high, last))
            });
            return Some(prefix | found.unwrap_or(min));
        }
    }

    /// Inserts what is not a member.
    fn insert(&mut self, mut node: TreeNode, mut member: u32) {
        loop {
            let Some(min) = self.min(node) else { return self.set_only(node, member) };
            if node.is_leaf() {
                let word = self.words.load(node.at);
                return self.words.store(node.at, word | 1 << member);
            }
            if member < min {
                self.words.store(node.at, member + 1);
                member = min;
            }
            if self.max(node).is_none_or(|max| max < member) {
                self.words.store(node.at + 1, member + 1);
            }
            let (high, low) = node.parts(member);
            let cluster = self.cluster(node, high);
            if self.min(cluster).is_none() {
                self.set_only(cluster, low);
                (node, member) = (node.summary(), high);
            } else {
                (node, member) = (cluster, low);
            }
        }
    }

    /// Removes a member.
    fn remove(&mut self, node: TreeNode, mut member: u32) {
        if node.is_leaf() {
            let word = self.words.load(node.at);
            return self.words.store(node.at, word & !(1 << member));
        }
        let (min, max) = (self.min(node), self.max(node));
        if min == max {
            self.words.store(node.at, 0);
            return self.words.store(node.at + 1, 0);
        }
        if min == Some(member) {
            // The clusters' smallest takes its place.
            let Some(high) = self.min(node.summary()) else { return };
            let Some(low) = self.min(self.cluster(node, high)) else { return };
            member = node.join(high, low);
            self.words.store(node.at, member + 1);
        }
        let (high, low) = node.parts(member);
        let cluster = self.cluster(node, high);
        self.remove(cluster, low);
        if self.min(cluster).is_none() {
            // The removal from the cluster was one step, so this is the only way down.
            self.remove(node.summary(), high);
        }
        if max == Some(member) {
            let last = self.max(node.summary()).and_then(|high| {
                let low = self.max(self.cluster(node, high))?;
                Some(node.join(high, low))
            });
            let last = last.or_else(|| self.min(node)).map_or(0, |last| last + 1);
            self.words.store(node.at + 1, last);
        }
    }
}

impl<S: WordStore<u32>> VirtualRegionsTree for LayeredTree<S> {
    fn pages(&self) -> u32 {
        self.pages
    }

    fn find(&self, page: u32) -> Option<u32> {
        self.predecessor(self.root(), page)
    }

    fn split(&mut self, page: u32) -> bool {
        let new = !self.contains(self.root(), page);
        if new {
            self.insert(self.root(), page);
        }
        new
    }

    fn union(&mut self, page: u32) -> bool {
        let there = self.contains(self.root(), page);
        if there {
            self.remove(self.root(), page);
        }
        there
    }

    fn is_start(&self, page: u32) -> bool {
        self.contains(self.root(), page)
    }

    fn bytes(&self) -> usize {
        self.sizes[self.bits as usize] * size_of::<u32>()
    }
}
