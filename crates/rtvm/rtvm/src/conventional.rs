//! The conventional system of the comparison: a page table, page-by-page unmapping, and a heap that only shrinks at its end (section V-A).

use crate::{Error, FrameNumber, Mmu, Page, PhysicalMemory, Rights, VirtualRegionsTree, WordStore};

/// An address space with a page table. A heap lies at its start, up to the break; regions lie after it.
#[derive(Clone, Debug)]
pub struct Conventional<S, T> {
    /// One word a page: frame + 1, or zero.
    table: S,
    /// Where regions begin; with the lengths, a stand-in for a kernel's list of mappings.
    tree: T,
    /// One word a page: length of the region that begins there, and its rights in bits 29 to 31.
    regions: S,
    pages: u32,
    brk: u32,
    mapped: u32,
}

const LEN: u32 = (1 << 28) - 1;
const MAPPED: u32 = 1 << 28;

impl<S: WordStore<u32>, T: VirtualRegionsTree> Conventional<S, T> {
    /// An address space without regions and with an empty heap, over an empty tree and zeroed words.
    ///
    /// # Panics
    /// Where a store has fewer words than the tree has pages, or these are none or above 2^27.
    pub fn new(mut tree: T, table: S, mut regions: S) -> Self {
        let pages = tree.pages();
        assert!(pages > 0 && pages <= 1 << 27, "1 to 2^27 pages");
        assert!(table.len().min(regions.len()) >= pages as usize, "a word of each kind for each page");
        tree.split(0);
        regions.store(0, pages);
        Self { table, tree, regions, pages, brk: 0, mapped: 0 }
    }

    /// Pages of the heap.
    pub fn brk(&self) -> u32 {
        self.brk
    }

    /// Moves the end of the heap (sbrk). Shrinking goes through every page that the heap loses, mapped or not. Returns how
    /// many frames were released.
    ///
    /// # Errors
    /// [`Error::Overlap`] where the heap would grow into a region or beyond the address space.
    pub fn set_brk<F: WordStore<u32>>(
        &mut self,
        pages: u32,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<u32, Error> {
        if pages >= self.brk {
            let free = self.free_until(self.brk);
            if pages > free {
                return Err(Error::Overlap { first: Page(self.brk), pages: pages - self.brk });
            }
            self.brk = pages;
            return Ok(0);
        }
        let released = self.unmap_pages(pages, self.brk, memory);
        self.brk = pages;
        Ok(released)
    }

    /// Brings the word of a page near, uncounted, for a model that soon accesses it.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn warm(&self, page: Page) -> u32 {
        if page.0 < self.pages { self.table.peek(page.0 as usize) } else { 0 }
    }

    /// The end of the free pages from `page` on.
    fn free_until(&self, page: u32) -> u32 {
        if page >= self.pages {
            return self.pages;
        }
        let start = self.tree.find(page).unwrap_or(0);
        let region = self.regions.load(start as usize);
        if region & MAPPED != 0 { page } else { start + (region & LEN) }
    }

    fn unmap_pages<F: WordStore<u32>>(&mut self, from: u32, to: u32, memory: &mut PhysicalMemory<F>) -> u32 {
        let mut released = 0;
        for page in from..to {
            let entry = self.table.load(page as usize);
            if let Some(frame) = entry.checked_sub(1) {
                self.table.store(page as usize, 0);
                memory.release_one(FrameNumber(frame));
                released += 1;
            }
        }
        self.mapped -= released;
        released
    }

    /// What may be done at a page.
    fn rights(&self, page: Page) -> Result<Rights, Error> {
        if page.0 < self.brk {
            return Ok(Rights::READ_WRITE);
        }
        if page.0 >= self.pages {
            return Err(Error::NoRegion { page });
        }
        let region = self.regions.load(self.tree.find(page.0).unwrap_or(0) as usize);
        if region & MAPPED == 0 {
            return Err(Error::NoRegion { page });
        }
        Ok(Rights::from_bits((region >> 29) as u8))
    }
}

impl<S: WordStore<u32>, T: VirtualRegionsTree> Mmu for Conventional<S, T> {
    fn pages(&self) -> u32 {
        self.pages
    }

    fn map_region(&mut self, first: Page, pages: u32, rights: Rights) -> Result<(), Error> {
        let wrong = Error::Overlap { first, pages };
        if pages == 0 || first.0 >= self.pages || pages > self.pages - first.0 || first.0 < self.brk {
            return Err(wrong);
        }
        let end = self.free_until(first.0);
        if end - first.0 < pages {
            return Err(wrong);
        }
        let free = self.tree.find(first.0).unwrap_or(0);
        if free < first.0 {
            self.regions.store(free as usize, first.0 - free);
            self.tree.split(first.0);
        }
        self.regions.store(first.0 as usize, pages | MAPPED | u32::from(rights.bits()) << 29);
        let after = first.0 + pages;
        if after < end {
            self.tree.split(after);
            self.regions.store(after as usize, end - after);
        }
        Ok(())
    }

    fn unmap_region<F: WordStore<u32>>(
        &mut self,
        first: Page,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<u32, Error> {
        let wrong = Error::NotAStart { page: first };
        if first.0 >= self.pages || !self.tree.is_start(first.0) {
            return Err(wrong);
        }
        let region = self.regions.load(first.0 as usize);
        if region & MAPPED == 0 {
            return Err(wrong);
        }
        let (mut start, mut pages) = (first.0, region & LEN);
        let released = self.unmap_pages(start, start + pages, memory);
        let after = start + pages;
        if after < self.pages && self.regions.load(after as usize) & MAPPED == 0 {
            self.tree.union(after);
            pages += self.regions.load(after as usize);
        }
        if let Some(before) = start.checked_sub(1).and_then(|page| self.tree.find(page))
            && self.regions.load(before as usize) & MAPPED == 0
        {
            self.tree.union(start);
            pages += start - before;
            start = before;
        }
        self.regions.store(start as usize, pages);
        Ok(released)
    }

    #[inline]
    fn map_page<F: WordStore<u32>>(
        &mut self,
        page: Page,
        wanted: Rights,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<FrameNumber, Error> {
        if !self.rights(page)?.allow(wanted) {
            return Err(Error::Denied { page, wanted });
        }
        if let Some(frame) = self.table.load(page.0 as usize).checked_sub(1) {
            return Ok(FrameNumber(frame));
        }
        let frame = memory.take()?;
        self.table.store(page.0 as usize, frame.0 + 1);
        self.mapped += 1;
        Ok(frame)
    }

    #[inline]
    fn translate(&self, page: Page, wanted: Rights) -> Result<Option<FrameNumber>, Error> {
        if page.0 >= self.pages {
            return Err(Error::NoRegion { page });
        }
        let Some(frame) = self.table.load(page.0 as usize).checked_sub(1) else { return Ok(None) };
        if page.0 >= self.brk && !self.rights(page)?.allow(wanted) {
            return Err(Error::Denied { page, wanted });
        }
        Ok(Some(FrameNumber(frame)))
    }

    fn mapped(&self) -> u32 {
        self.mapped
    }
}
