//! TLSF over a model.

use core::cell::RefCell;

use super::{Paging, TagMap};
use crate::tlsf::{BlockSpan, CONTROL_WORDS, HeapMemory, Merge, TAG_BYTES, TagWord, Tlsf};
use crate::{Error, Page, PhysicalMemory, Rights, WordStore};

/// The memory of a modelled heap: the whole address space.
#[derive(Debug)]
pub struct ModelMemory<'a, P, F> {
    paging: P,
    frames: &'a RefCell<PhysicalMemory<F>>,
    tags: TagMap,
    control: Vec<u64>,
    page_bits: u32,
    control_touches: u64,
    tag_touches: u64,
    unmapped: u32,
}

/// A heap over a model.
pub type ModelHeap<'a, P, F> = Tlsf<ModelMemory<'a, P, F>>;

impl<'a, P: Paging, F: WordStore<u32>> ModelMemory<'a, P, F> {
    /// A heap over the first `heap_pages` of an unused address space of pages of `2^page_bits` bytes. The rest is for other
    /// regions.
    ///
    /// # Errors
    /// Where there is no frame for the first tag, or the pages are smaller than two tags.
    pub fn heap(
        mut paging: P,
        frames: &'a RefCell<PhysicalMemory<F>>,
        page_bits: u32,
        heap_pages: u32,
    ) -> Result<ModelHeap<'a, P, F>, Error> {
        if !(6..=21).contains(&page_bits) {
            return Err(Error::BadAlignment { align: 1 << page_bits.min(63) });
        }
        let heap_pages = heap_pages.min(paging.pages());
        paging.begin(page_bits, &mut frames.borrow_mut())?;
        let bytes = u64::from(heap_pages) << page_bits;
        let memory = Self {
            paging,
            frames,
            tags: TagMap::default(),
            control: vec![0; CONTROL_WORDS],
            page_bits,
            control_touches: 0,
            tag_touches: 0,
            unmapped: 0,
        };
        Tlsf::new(memory, bytes)
    }

    /// The address space.
    pub fn paging(&self) -> &P {
        &self.paging
    }

    /// Touches of control words and tags so far.
    #[inline]
    pub fn touches(&self) -> (u64, u64) {
        (self.control_touches, self.tag_touches)
    }

    /// Pages that the last release took frames from; asking sets it back.
    #[inline]
    pub fn take_unmapped(&mut self) -> u32 {
        core::mem::take(&mut self.unmapped)
    }

    /// An access of the program.
    ///
    /// # Errors
    /// Where the address belongs to no region, or no frame is free.
    #[inline]
    pub fn access(&mut self, addr: u64, wanted: Rights) -> Result<(), Error> {
        let page = u32::try_from(addr >> self.page_bits).unwrap_or(u32::MAX);
        self.paging.access(Page(page), wanted, &mut self.frames.borrow_mut()).map(drop)
    }

    /// Brings what an access to that address needs near, uncounted.
    #[inline]
    pub(crate) fn warm(&self, addr: u64) -> u32 {
        self.paging.warm(Page((addr >> self.page_bits) as u32))
    }

    /// Makes a region outside the heap.
    ///
    /// # Errors
    /// As [`crate::Mmu::map_region`].
    pub fn map_region(&mut self, first: Page, pages: u32) -> Result<(), Error> {
        self.paging.map_region(first, pages, Rights::READ_WRITE)
    }

    /// Ends one.
    ///
    /// # Errors
    /// As [`crate::Mmu::unmap_region`].
    pub fn unmap_region(&mut self, first: Page) -> Result<(), Error> {
        self.unmapped += self.paging.unmap_region(first, &mut self.frames.borrow_mut())?;
        Ok(())
    }

    /// The number of the page that holds an address.
    #[inline]
    pub fn page_of(&self, addr: u64) -> u64 {
        addr >> self.page_bits
    }

    #[inline]
    fn touch_tag(&mut self, block: u64, field: TagWord, wanted: Rights) {
        self.tag_touches += 1;
        let mapped = self.paging.mapped();
        let result = self.access(block + field.offset(), wanted);
        // A fault would mean that the page was taken away while it held a tag.
        debug_assert!(result.is_ok() && self.paging.mapped() == mapped, "the tag at {block:#x}: {result:?}");
    }
}

impl<P: Paging, F: WordStore<u32>> HeapMemory for ModelMemory<'_, P, F> {
    const RESIZES: bool = false;

    fn page_bytes(&self) -> u64 {
        1 << self.page_bits
    }

    #[inline]
    fn control(&mut self, index: usize) -> u64 {
        self.control_touches += 1;
        self.control[index]
    }

    #[inline]
    fn set_control(&mut self, index: usize, word: u64) {
        self.control_touches += 1;
        self.control[index] = word;
    }

    #[inline]
    fn tag(&mut self, block: u64, field: TagWord) -> u64 {
        match self.tags.get(block, field) {
            Some(word) => {
                self.touch_tag(block, field, Rights::READ);
                word
            }
            // Whatever lies there, it is no tag.
            None => 0,
        }
    }

    #[inline]
    fn set_tag(&mut self, block: u64, field: TagWord, word: u64) {
        self.tags.set(block, field, word);
        self.touch_tag(block, field, Rights::WRITE);
    }

    fn erase_tag(&mut self, block: u64) {
        self.tags.erase(block);
    }

    fn carve(&mut self, free: BlockSpan, cuts: &[u64], block: BlockSpan) -> Result<(), Error> {
        self.paging.carve(free, cuts, block, self.page_bits, &mut self.frames.borrow_mut())
    }

    fn merge(&mut self, merge: &Merge) -> bool {
        self.unmapped += self.paging.merge(merge, self.page_bits, &mut self.frames.borrow_mut());
        false
    }

    /// Copies page by page. What was never written is read as zeros from a page that has a frame afterwards, in both systems.
    fn copy(&mut self, from: u64, to: u64, bytes: u64) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        debug_assert!(from >= TAG_BYTES && to >= TAG_BYTES, "payloads");
        let step = 1_u64 << self.page_bits;
        for (base, wanted) in [(from, Rights::READ), (to, Rights::WRITE)] {
            let mut at = base;
            while at < base + bytes {
                self.access(at, wanted)?;
                at = (at & !(step - 1)) + step;
            }
        }
        Ok(())
    }
}
