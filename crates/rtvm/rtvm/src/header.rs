//! Virtual Region Headers: the data kept at the beginning of a region (section IV-A2a).

use crate::{FrameList, FrameNumber, Page, WordStore};

/// The header of a region. Its rights and the depth of its stack are in its [`crate::StackPointer`], which every access
/// reads anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionHeader {
    /// Pages from its first to its last.
    pub pages: u32,
    /// The frames of its mapped pages; means nothing while its stack is empty.
    pub frames: FrameList,
}

/// The headers, three words a page: length and frames where a region begins, its start where it ends. By the latter the
/// region before another one is found in one touch, where a search in the tree would take a time that depends on how long
/// that region is.
#[derive(Clone, Debug)]
pub struct RegionHeaders<S> {
    pages: S,
    starts: S,
    frames: S,
}

impl<S: WordStore<u32>> RegionHeaders<S> {
    /// Headers of any content.
    pub fn new(pages: S, starts: S, frames: S) -> Self {
        Self { pages, starts, frames }
    }

    /// Pages that all three have.
    pub fn len(&self) -> usize {
        self.pages.len().min(self.starts.len()).min(self.frames.len())
    }

    /// Whether it has no page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pages of the region at `start`.
    #[inline]
    pub fn pages(&self, start: Page) -> u32 {
        self.pages.load(start.0 as usize)
    }

    /// Sets them, at least one.
    #[inline]
    pub fn set_pages(&mut self, start: Page, pages: u32) {
        self.pages.store(start.0 as usize, pages);
        self.starts.store((start.0 + pages - 1) as usize, start.0);
    }

    /// The start of the region that ends with `last`.
    #[inline]
    pub fn start_of(&self, last: Page) -> Page {
        Page(self.starts.load(last.0 as usize))
    }

    /// Frames of the region at `start`.
    #[inline]
    pub fn frames(&self, start: Page) -> FrameList {
        FrameList { last: FrameNumber(self.frames.load(start.0 as usize)) }
    }

    /// Sets them.
    #[inline]
    pub fn set_frames(&mut self, start: Page, frames: FrameList) {
        self.frames.store(start.0 as usize, frames.last.0);
    }
}
