//! The Virtual Regions Tree: the partition of the pages into regions (sections II-C2 and IV-A2).
//!
//! It solves the union-split-find problem over a fixed set of pages `0..N`: intervals are identified by their first page. Both
//! forms here have a fixed depth for a fixed `N`, no pointers, and interpret zeroed words as "no region begins anywhere".

mod layered;
mod trie;

pub use layered::LayeredTree;
pub use trie::BitTrie;

/// A partition of pages into regions.
pub trait VirtualRegionsTree {
    /// Pages `0..pages()` are partitioned.
    fn pages(&self) -> u32;
    /// The first page of the region that holds `page`: the last page at or below it where a region begins.
    fn find(&self, page: u32) -> Option<u32>;
    /// Lets a region begin at `page`. Returns false, and changes nothing, where one does already.
    fn split(&mut self, page: u32) -> bool;
    /// Joins the region that begins at `page` to the one before it. Returns false, and changes nothing, where none
    /// begins there.
    fn union(&mut self, page: u32) -> bool;
    /// Whether a region begins at `page`.
    fn is_start(&self, page: u32) -> bool;
    /// Bytes of its words.
    fn bytes(&self) -> usize;
}
