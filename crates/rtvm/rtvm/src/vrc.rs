//! The Virtual Regions Cache: for each page, what `find` returned at its last page fault (section IV-A2b).
//!
//! It is never initialised and never invalidated: whether an entry is right follows from the stack pointers (Lemma 1).

use crate::{Page, WordStore};

/// The cache, one word a page.
#[derive(Clone, Debug)]
pub struct VirtualRegionsCache<S> {
    starts: S,
}

impl<S: WordStore<u32>> VirtualRegionsCache<S> {
    /// A cache of any content.
    pub fn new(starts: S) -> Self {
        Self { starts }
    }

    /// Pages.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether it has no page.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The page where the region of `page` may begin. Nothing above `page` (case 1 of Lemma 1 is found here).
    #[inline]
    pub fn get(&self, page: Page) -> Option<Page> {
        let start = self.starts.load(page.0 as usize);
        (start <= page.0).then_some(Page(start))
    }

    /// Keeps what `find` gave.
    #[inline]
    pub fn set(&mut self, page: Page, start: Page) {
        self.starts.store(page.0 as usize, start.0);
    }
}
