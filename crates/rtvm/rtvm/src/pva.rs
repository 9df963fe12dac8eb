//! The Pages Validity Array: one initialisation-free array for each region, all of them in the same words (Figure 4).

use crate::{FrameNumber, Page, Rights, WordStore};

/// The stack pointer of a region, with what else is asked at every access.
///
/// One word: bits 0 to 27 one past the top of the region's stack, bit 28 whether a region is mapped here, bits 29 to 31 its
/// rights. The stack of the region at `a` is empty where the number is not above `a`, so a zeroed word is an empty stack at
/// every page, page 0 included (the paper's footnote 5 has to leave page 0 out).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackPointer(u32);

const TOP: u32 = (1 << 28) - 1;
const MAPPED: u32 = 1 << 28;

impl StackPointer {
    /// No region: an empty stack.
    pub const NONE: Self = Self(0);

    /// A mapped region without pages.
    pub const fn empty(rights: Rights) -> Self {
        Self(MAPPED | (rights.bits() as u32) << 29)
    }

    /// One past the top of the stack.
    pub const fn top(self) -> u32 {
        self.0 & TOP
    }

    /// Whether a region is mapped here.
    pub const fn is_mapped(self) -> bool {
        self.0 & MAPPED != 0
    }

    /// What it allows.
    pub const fn rights(self) -> Rights {
        Rights::from_bits((self.0 >> 29) as u8)
    }

    /// The same with other rights.
    pub const fn with_rights(self, rights: Rights) -> Self {
        Self(self.0 & !(7 << 29) | (rights.bits() as u32) << 29)
    }

    /// The same with another top.
    pub const fn with_top(self, top: u32) -> Self {
        Self(self.0 & !TOP | top)
    }

    /// Pages on the stack of the region at `start`.
    pub const fn depth(self, start: Page) -> u32 {
        self.top().saturating_sub(start.0)
    }
}

/// The array. Only the stack pointers have to be zero at the start.
#[derive(Clone, Debug)]
pub struct PagesValidityArray<S> {
    /// `d`: the frame of each page.
    table: S,
    /// `h`: each page's place on the stack of its region.
    helper: S,
    /// `s`: the stacks; that of the region at `a` begins at index `a`.
    stack: S,
    /// `sp`: meaningful where a region begins.
    pointers: S,
}

impl<S: WordStore<u32>> PagesValidityArray<S> {
    /// An array over stores of any content, except that `pointers` must be zero.
    pub fn new(table: S, helper: S, stack: S, pointers: S) -> Self {
        Self { table, helper, stack, pointers }
    }

    /// Pages that all four have.
    pub fn len(&self) -> usize {
        self.table.len().min(self.helper.len()).min(self.stack.len()).min(self.pointers.len())
    }

    /// Whether it has no page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stack pointer of the region at `start`.
    #[inline]
    pub fn pointer(&self, start: Page) -> StackPointer {
        StackPointer(self.pointers.load(start.0 as usize))
    }

    /// Sets it.
    #[inline]
    pub fn set_pointer(&mut self, start: Page, pointer: StackPointer) {
        self.pointers.store(start.0 as usize, pointer.0);
    }

    /// `d[page]` and `h[page]`, which hardware reads at once, whether they mean anything or not.
    #[inline]
    pub fn page(&self, page: Page) -> (FrameNumber, u32) {
        (FrameNumber(self.table.load(page.0 as usize)), self.helper.load(page.0 as usize))
    }

    /// Brings what belongs to a page near, uncounted.
    #[inline]
    pub fn warm(&self, page: Page) -> u32 {
        self.helper.peek(page.0 as usize)
    }

    /// `s[place]`: which page a place on a stack belongs to.
    #[inline]
    pub fn owner(&self, place: u32) -> Page {
        Page(self.stack.load(place as usize))
    }

    /// Pushes a page that is not on the stack of its region.
    #[inline]
    pub fn push(&mut self, start: Page, pointer: StackPointer, page: Page, frame: FrameNumber) {
        let place = pointer.top().max(start.0);
        self.helper.store(page.0 as usize, place);
        self.stack.store(place as usize, page.0);
        self.table.store(page.0 as usize, frame.0);
        self.set_pointer(start, pointer.with_top(place + 1));
    }
}
