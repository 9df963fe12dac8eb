//! An address space under the RTMMU: the number of words that an operation touches
//! depends neither on the size of a region nor on previous operations (section IV).

use core::cell::Cell;

use crate::{
    Error, FrameNumber, Mmu, Page, PagesValidityArray, PhysicalMemory, RegionHeader, RegionHeaders, Rights,
    StackPointer, VirtualRegionsCache, VirtualRegionsTree, WordStore,
};

/// How often each case of Lemma 1 was met, and what hardware read for them. Whether an entry of case 2.2 is another
/// region's is only known to an access, whose page fault finds out; a mere translation counts neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// All lookups. Each reads `c`, `h` and `d` of its page.
    pub lookups: u64,
    /// Those that read a stack pointer as well.
    pub read_pointer: u64,
    /// Those that read a place of a stack as well.
    pub read_stack: u64,
    /// Case 1: the cache points after the page.
    pub case_1: u64,
    /// Case 2.1: the stack that the cache points to is empty.
    pub case_2_1: u64,
    /// Case 2.2.1: it is another region's, and shows that the page is not on it.
    pub case_2_2_1: u64,
    /// Case 2.2.2, with the page not mapped.
    pub case_2_2_2_fault: u64,
    /// Case 2.2.2, with the page mapped.
    pub case_2_2_2_hit: u64,
}

/// What a lookup found.
enum Lookup {
    Hit(FrameNumber, StackPointer),
    /// A page fault; with the cached start of a region whose stack is not empty.
    Fault(Option<Page>),
}

/// One word of each kind for each page.
#[derive(Clone, Debug)]
pub struct SpaceWords<S> {
    /// `c`, of any content.
    pub cache: S,
    /// `h`, of any content.
    pub helper: S,
    /// `s`, of any content.
    pub stack: S,
    /// `d`, of any content.
    pub table: S,
    /// `sp`, zero.
    pub pointers: S,
    /// Lengths of the regions, of any content.
    pub region_pages: S,
    /// Where the regions that end here begin, of any content.
    pub region_starts: S,
    /// Frame lists of the regions, of any content.
    pub region_frames: S,
}

/// An address space.
#[derive(Clone, Debug)]
pub struct AddressSpace<S, T> {
    tree: T,
    cache: VirtualRegionsCache<S>,
    validity: PagesValidityArray<S>,
    headers: RegionHeaders<S>,
    pages: u32,
    mapped: u32,
    lookups: Cell<Lookups>,
}

impl<S: WordStore<u32>, T: VirtualRegionsTree> AddressSpace<S, T> {
    /// The most pages: a stack pointer has 28 bits.
    pub const MOST_PAGES: u32 = 1 << 27;

    /// An address space without regions, over an empty tree.
    ///
    /// # Panics
    /// Where a store has fewer words than the tree has pages, or these are none or above [`Self::MOST_PAGES`].
    pub fn new(mut tree: T, words: SpaceWords<S>) -> Self {
        let pages = tree.pages();
        let cache = VirtualRegionsCache::new(words.cache);
        let validity = PagesValidityArray::new(words.table, words.helper, words.stack, words.pointers);
        let mut headers = RegionHeaders::new(words.region_pages, words.region_starts, words.region_frames);
        assert!(pages > 0 && pages <= Self::MOST_PAGES, "1 to 2^27 pages");
        let shortest = cache.len().min(validity.len()).min(headers.len());
        assert!(shortest >= pages as usize, "a word of each kind for each page");
        tree.split(0);
        headers.set_pages(Page(0), pages);
        Self { tree, cache, validity, headers, pages, mapped: 0, lookups: Cell::default() }
    }

    /// The tree.
    pub fn tree(&self) -> &T {
        &self.tree
    }

    /// Which cases of Lemma 1 the accesses so far met.
    pub fn lookups(&self) -> Lookups {
        self.lookups.get()
    }

    /// The first page of the region, mapped or free, that holds `page`.
    ///
    /// # Errors
    /// Where the page is beyond the address space.
    pub fn find(&self, page: Page) -> Result<Page, Error> {
        if page.0 >= self.pages {
            return Err(Error::NoRegion { page });
        }
        // A region begins at page 0 always.
        Ok(Page(self.tree.find(page.0).unwrap_or(0)))
    }

    /// The header of the mapped region that begins at `first`, with its stack pointer.
    ///
    /// # Errors
    /// Where none does.
    pub fn region(&self, first: Page) -> Result<(RegionHeader, StackPointer), Error> {
        let pointer = self.mapped_start(first)?;
        let header = RegionHeader { pages: self.headers.pages(first), frames: self.headers.frames(first) };
        Ok((header, pointer))
    }

    /// Changes what the region that begins at `first` allows, in constant time.
    ///
    /// # Errors
    /// Where no region begins there.
    pub fn protect(&mut self, first: Page, rights: Rights) -> Result<(), Error> {
        let pointer = self.mapped_start(first)?;
        self.validity.set_pointer(first, pointer.with_rights(rights));
        Ok(())
    }

    /// Brings the words of a page near, uncounted, for a model that soon accesses it.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn warm(&self, page: Page) -> u32 {
        if page.0 < self.pages { self.validity.warm(page) } else { 0 }
    }

    fn mapped_start(&self, first: Page) -> Result<StackPointer, Error> {
        let wrong = Error::NotAStart { page: first };
        if first.0 >= self.pages || !self.tree.is_start(first.0) {
            return Err(wrong);
        }
        let pointer = self.validity.pointer(first);
        if pointer.is_mapped() { Ok(pointer) } else { Err(wrong) }
    }

    fn count(&self, change: impl FnOnce(&mut Lookups)) {
        let mut lookups = self.lookups.get();
        change(&mut lookups);
        self.lookups.set(lookups);
    }

    /// What the RTMMU does at an access: three ports at once read `c`, `h` and `d`, two of them go on to `sp` and `s`.
    #[inline]
    fn look_up(&self, page: Page) -> Lookup {
        let cached = self.cache.get(page);
        let (frame, place) = self.validity.page(page);
        let Some(start) = cached else {
            self.count(|l| (l.lookups, l.case_1) = (l.lookups + 1, l.case_1 + 1));
            return Lookup::Fault(None);
        };
        let pointer = self.validity.pointer(start);
        if pointer.top() <= start.0 {
            self.count(|l| {
                l.lookups += 1;
                l.read_pointer += 1;
                l.case_2_1 += 1;
            });
            return Lookup::Fault(None);
        }
        let on_stack = start.0 <= place && place < pointer.top();
        let hit = on_stack && self.validity.owner(place) == page;
        self.count(|l| {
            l.lookups += 1;
            l.read_pointer += 1;
            l.read_stack += u64::from(on_stack);
            l.case_2_2_2_hit += u64::from(hit);
        });
        if hit { Lookup::Hit(frame, pointer) } else { Lookup::Fault(Some(start)) }
    }

    /// A page fault. That the lookup failed proves that the page has no frame: had it been mapped since its region was made,
    /// the cache would still hold what was found then.
    fn fault<F: WordStore<u32>>(
        &mut self,
        page: Page,
        wanted: Rights,
        memory: &mut PhysicalMemory<F>,
        cached: Option<Page>,
    ) -> Result<FrameNumber, Error> {
        let start = self.find(page)?;
        if let Some(cached) = cached {
            self.count(|l| {
                l.case_2_2_1 += u64::from(cached != start);
                l.case_2_2_2_fault += u64::from(cached == start);
            });
        }
        let pointer = self.validity.pointer(start);
        if !pointer.is_mapped() {
            return Err(Error::NoRegion { page });
        }
        if !pointer.rights().allow(wanted) {
            return Err(Error::Denied { page, wanted });
        }
        let frame = memory.take()?;
        if pointer.top() <= start.0 {
            let list = memory.list_of(frame);
            self.headers.set_frames(start, list);
        } else {
            memory.push(self.headers.frames(start), frame);
        }
        self.validity.push(start, pointer, page, frame);
        self.cache.set(page, start);
        self.mapped += 1;
        Ok(frame)
    }

    /// Lets a region end where the next one begins: joins the free region after `start` to it.
    fn join_free(&mut self, start: Page, pages: u32) -> u32 {
        let next = start.0 + pages;
        if next >= self.pages || self.validity.pointer(Page(next)).is_mapped() {
            return pages;
        }
        self.tree.union(next);
        pages + self.headers.pages(Page(next))
    }
}

impl<S: WordStore<u32>, T: VirtualRegionsTree> Mmu for AddressSpace<S, T> {
    fn pages(&self) -> u32 {
        self.pages
    }

    fn map_region(&mut self, first: Page, pages: u32, rights: Rights) -> Result<(), Error> {
        let wrong = Error::Overlap { first, pages };
        if pages == 0 || first.0 >= self.pages || pages > self.pages - first.0 {
            return Err(wrong);
        }
        let free = self.find(first)?;
        let end = free.0 + self.headers.pages(free);
        if self.validity.pointer(free).is_mapped() || end - first.0 < pages {
            return Err(wrong);
        }
        if free < first {
            self.headers.set_pages(free, first.0 - free.0);
            self.tree.split(first.0);
        }
        self.headers.set_pages(first, pages);
        self.validity.set_pointer(first, StackPointer::empty(rights));
        let after = Page(first.0 + pages);
        if after.0 < end {
            self.tree.split(after.0);
            self.headers.set_pages(after, end - after.0);
            self.validity.set_pointer(after, StackPointer::NONE);
        }
        Ok(())
    }

    fn unmap_region<F: WordStore<u32>>(
        &mut self,
        first: Page,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<u32, Error> {
        let pointer = self.mapped_start(first)?;
        let released = pointer.depth(first);
        if released > 0 {
            memory.release(self.headers.frames(first), released);
            self.mapped -= released;
        }
        self.validity.set_pointer(first, StackPointer::NONE);
        let mut start = first;
        let mut pages = self.join_free(first, self.headers.pages(first));
        if first.0 > 0 {
            let before = self.headers.start_of(Page(first.0 - 1));
            if !self.validity.pointer(before).is_mapped() {
                self.tree.union(first.0);
                pages += first.0 - before.0;
                start = before;
            }
        }
        self.headers.set_pages(start, pages);
        Ok(released)
    }

    #[inline]
    fn map_page<F: WordStore<u32>>(
        &mut self,
        page: Page,
        wanted: Rights,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<FrameNumber, Error> {
        match self.translate(page, wanted)? {
            Some(frame) => Ok(frame),
            None => self.fault(page, wanted, memory, None),
        }
    }

    #[inline]
    fn translate(&self, page: Page, wanted: Rights) -> Result<Option<FrameNumber>, Error> {
        if page.0 >= self.pages {
            return Err(Error::NoRegion { page });
        }
        match self.look_up(page) {
            Lookup::Hit(frame, pointer) if pointer.rights().allow(wanted) => Ok(Some(frame)),
            Lookup::Hit(..) => Err(Error::Denied { page, wanted }),
            Lookup::Fault(_) => Ok(None),
        }
    }

    #[inline]
    fn access<F: WordStore<u32>>(
        &mut self,
        page: Page,
        wanted: Rights,
        memory: &mut PhysicalMemory<F>,
    ) -> Result<FrameNumber, Error> {
        if page.0 >= self.pages {
            return Err(Error::NoRegion { page });
        }
        match self.look_up(page) {
            Lookup::Hit(frame, pointer) if pointer.rights().allow(wanted) => Ok(frame),
            Lookup::Hit(..) => Err(Error::Denied { page, wanted }),
            Lookup::Fault(cached) => self.fault(page, wanted, memory, cached),
        }
    }

    fn mapped(&self) -> u32 {
        self.mapped
    }
}
