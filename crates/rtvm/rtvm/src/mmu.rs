//! The common interface of the two systems that are compared.

use crate::{Error, FrameNumber, Page, PhysicalMemory, Rights, WordStore};

/// A system of virtual memory: regions of pages, whose frames come at the first access.
pub trait Mmu {
    /// Pages of the address space.
    fn pages(&self) -> u32;

    /// Makes a region of `pages` pages (mapVRH). No page of it is mapped yet.
    ///
    /// # Errors
    /// [`Error::Overlap`] where a part of it belongs to a region already, or is beyond the address space.
    fn map_region(&mut self, first: Page, pages: u32, rights: Rights) -> Result<(), Error>;

    /// Ends the region that begins at `first` and releases its frames, which others can have when this returns
    /// (unmapRegion). Returns how many.
    ///
    /// # Errors
    /// [`Error::NotAStart`] where no region begins there.
    fn unmap_region<F: WordStore<u32>>(
        &mut self,
        first: Page,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<u32, Error>;

    /// Gives a page a frame (mapPage), which is what a page fault does. A page that has one keeps it.
    ///
    /// # Errors
    /// [`Error::NoRegion`], [`Error::Denied`] or [`Error::OutOfFrames`].
    fn map_page<F: WordStore<u32>>(
        &mut self,
        page: Page,
        wanted: Rights,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<FrameNumber, Error>;

    /// The frame of a page, or `None` where a page fault would be taken.
    ///
    /// # Errors
    /// [`Error::Denied`] where the region forbids the access.
    fn translate(&self, page: Page, wanted: Rights) -> Result<Option<FrameNumber>, Error>;

    /// Pages that have a frame.
    fn mapped(&self) -> u32;

    /// An access: translates, with the page fault where one is due.
    ///
    /// # Errors
    /// As [`Mmu::map_page`].
    #[inline]
    fn access<F: WordStore<u32>>(
        &mut self,
        page: Page,
        wanted: Rights,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<FrameNumber, Error> {
        if page.0 >= self.pages() {
            return Err(Error::NoRegion { page });
        }
        match self.translate(page, wanted)? {
            Some(frame) => Ok(frame),
            None => self.map_page(page, wanted, memory),
        }
    }
}
