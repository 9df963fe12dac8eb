//! What each system does with pages when the allocator hands out blocks and takes them back.

use crate::tlsf::{BlockSpan, MIN_BLOCK, Merge};
use crate::{
    AddressSpace, Conventional, Error, Lookups, Mmu, Page, PhysicalMemory, Rights, VirtualRegionsTree,
    WordStore,
};

/// Pages that hold the tag and the links of a block that begins at `cut`: one or two.
fn tag_pages(cut: u64, page_bits: u32) -> std::ops::Range<u32> {
    (cut >> page_bits) as u32..(cut + MIN_BLOCK).div_ceil(1 << page_bits) as u32
}

/// How a system serves an allocator.
pub trait Paging: Mmu {
    /// What hardware read to translate addresses, where it reads more than one word. Those are among the touches.
    fn lookups(&self) -> Lookups {
        Lookups::default()
    }

    /// Brings the words of a page near, uncounted, because an access to it is about to be modelled.
    fn warm(&self, page: Page) -> u32;

    /// Prepares the heap: the page of the first tag.
    ///
    /// # Errors
    /// Where no frame is free.
    fn begin<F: WordStore<u32>>(
        &mut self,
        page_bits: u32,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<(), Error>;

    /// See [`crate::tlsf::HeapMemory::carve`].
    ///
    /// # Errors
    /// Where no frame is free for a tag; nothing has changed then.
    fn carve<F: WordStore<u32>>(
        &mut self,
        free: BlockSpan,
        cuts: &[u64],
        block: BlockSpan,
        page_bits: u32,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<(), Error>;

    /// See [`crate::tlsf::HeapMemory::merge`]. Returns the pages that lost their frame.
    fn merge<F: WordStore<u32>>(
        &mut self,
        merge: &Merge,
        page_bits: u32,
        memory: &mut PhysicalMemory<F>,
    ) -> u32;
}

/// Immediate release: the whole pages of a block in use are one region, each page that holds a tag is one by itself, and
/// the whole pages of a free block are none. So every free is a constant number of unmappings.
impl<S: WordStore<u32>, T: VirtualRegionsTree> Paging for AddressSpace<S, T> {
    fn lookups(&self) -> Lookups {
        Self::lookups(self)
    }

    #[inline]
    fn warm(&self, page: Page) -> u32 {
        Self::warm(self, page)
    }

    fn begin<F: WordStore<u32>>(
        &mut self,
        page_bits: u32,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<(), Error> {
        for page in tag_pages(0, page_bits) {
            self.map_region(Page(page), 1, Rights::READ_WRITE)?;
            self.access(Page(page), Rights::WRITE, memory)?;
        }
        Ok(())
    }

    fn carve<F: WordStore<u32>>(
        &mut self,
        free: BlockSpan,
        cuts: &[u64],
        block: BlockSpan,
        page_bits: u32,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<(), Error> {
        let (first, end) = free.whole_pages(page_bits);
        let (mut made, mut len) = ([Page(0); 4], 0);
        let mut result = Ok(());
        for page in cuts.iter().flat_map(|&cut| tag_pages(cut, page_bits)) {
            let again = len > 0 && made[len - 1].0 >= page;
            if !(first..end).contains(&page) || again {
                continue;
            }
            result = self.map_region(Page(page), 1, Rights::READ_WRITE);
            if result.is_err() {
                break;
            }
            made[len] = Page(page);
            len += 1;
            result = self.access(Page(page), Rights::WRITE, memory).map(drop);
            if result.is_err() {
                break;
            }
        }
        if result.is_ok() {
            let (first, end) = block.whole_pages(page_bits);
            if first < end {
                result = self.map_region(Page(first), end - first, Rights::READ_WRITE);
            }
        }
        if result.is_err() {
            for &page in &made[..len] {
                // It was mapped above.
                let _ = self.unmap_region(page, memory);
            }
        }
        result
    }

    fn merge<F: WordStore<u32>>(
        &mut self,
        merge: &Merge,
        page_bits: u32,
        memory: &mut PhysicalMemory<F>,
    ) -> u32 {
        let mut released = 0;
        let mut unmap = |page: u32| {
            let result = self.unmap_region(Page(page), memory);
            debug_assert!(result.is_ok(), "page {page}: {result:?}");
            released += result.unwrap_or(0);
        };
        let (own, own_end) = merge.freed.whole_pages(page_bits);
        if own < own_end {
            unmap(own);
        }
        let (first, end) = merge.merged.whole_pages(page_bits);
        let mut done = 0;
        for (cut, gone) in [(merge.freed.start, merge.left), (merge.freed.end, merge.right)] {
            if !gone {
                continue;
            }
            for page in tag_pages(cut, page_bits) {
                if (first..end).contains(&page) && page >= done {
                    unmap(page);
                    done = page + 1;
                }
            }
        }
        released
    }
}

/// Pages stay for reuse; only a free block at the end of the heap is given back, page by page.
impl<S: WordStore<u32>, T: VirtualRegionsTree> Paging for Conventional<S, T> {
    #[inline]
    fn warm(&self, page: Page) -> u32 {
        Self::warm(self, page)
    }

    fn begin<F: WordStore<u32>>(
        &mut self,
        page_bits: u32,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<(), Error> {
        let pages = tag_pages(0, page_bits);
        self.set_brk(pages.end, memory)?;
        for page in pages {
            self.access(Page(page), Rights::WRITE, memory)?;
        }
        Ok(())
    }

    fn carve<F: WordStore<u32>>(
        &mut self,
        free: BlockSpan,
        cuts: &[u64],
        block: BlockSpan,
        page_bits: u32,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<(), Error> {
        let brk = self.brk();
        // The tag after the block, where one is made, and the block itself.
        let last = if block.end < free.end { block.end + MIN_BLOCK } else { block.end };
        let needed = last.div_ceil(1 << page_bits) as u32;
        if needed > brk {
            self.set_brk(needed, memory)?;
        }
        for page in cuts.iter().flat_map(|&cut| tag_pages(cut, page_bits)) {
            if let Err(error) = self.access(Page(page), Rights::WRITE, memory) {
                self.set_brk(brk, memory)?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn merge<F: WordStore<u32>>(
        &mut self,
        merge: &Merge,
        page_bits: u32,
        memory: &mut PhysicalMemory<F>,
    ) -> u32 {
        if !merge.at_end {
            return 0;
        }
        let (first, _) = merge.merged.whole_pages(page_bits);
        let brk = self.brk();
        // Shrinking can't fail.
        self.set_brk(first.min(brk), memory).unwrap_or(0)
    }
}
