//! A heap with its arena, its lock and its helper.

use std::ffi::c_void;
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rtvm::heap::{Blocks, RtAlloc, Waiting};
use rtvm::{Error, HOST_PAGE_BYTES, RtHeap};

use crate::cache::{Overflow, ThreadCache};
use crate::classes::{CLASSES, class_bytes, class_of_block, class_with_room};
use crate::{PiMutex, Shelf};

/// Alignment of arenas, and so the largest alignment that a block can have.
const ARENA_ALIGN: usize = 2 << 20;
/// What the helper takes out of the heap at a time: this much less is there for a while.
pub const RETURN_BYTES: usize = 1 << 20;
/// Fewer pages in a row are not given back: tags take one at either end.
const FEWEST_PAGES: usize = 4;
/// How long the helper sleeps: a period of the heap's.
static PERIOD: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Pages go back when nobody wanted them for so many periods. Taking a page again costs a fault, so what a program releases
/// and soon asks for again stays.
const RETURN_PERIODS: u8 = 5;

/// What an arena is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arena {
    /// Bytes.
    pub bytes: usize,
    /// All pages are there from the start and stay: no call takes a page fault. Otherwise they come at the first touch,
    /// and released ones are given back by the helper.
    pub prefault: bool,
}

/// A heap that threads share.
#[derive(Debug)]
pub struct Heap {
    alloc: RtAlloc<PiMutex>,
    /// The same arena's blocks, for caches. Written by `map`.
    blocks: Option<Blocks>,
    /// Magazines between threads, by class.
    shelves: [Shelf; CLASSES],
    base: *mut c_void,
    mapped: usize,
    /// Not zero: the helper ends. Written by `stop`; the helper sleeps on it.
    stopping: AtomicU32,
    /// Written by the helper alone.
    returned: AtomicU64,
    /// The helper's thread, or zero. Written by who starts and stops it.
    helper: AtomicU64,
    /// Bytes that were asked of the arena itself, not of caches, in all. Written by who asks.
    taken: AtomicU64,
}

// SAFETY: `base` is only used by those who end the heap, everything else is shared by design.
unsafe impl Sync for Heap {}
// SAFETY: `base` may be unmapped by any thread, and everything else is shared by design.
unsafe impl Send for Heap {}

impl Heap {
    /// A heap without arena: every allocation fails.
    pub const fn new() -> Self {
        Self {
            alloc: RtAlloc::new(PiMutex::new()),
            blocks: None,
            shelves: [const { Shelf::new() }; CLASSES],
            base: null_mut(),
            mapped: 0,
            stopping: AtomicU32::new(0),
            returned: AtomicU64::new(0),
            helper: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// Maps an arena. The heap must not move any more.
    ///
    /// # Safety
    /// Nobody else uses the heap yet, and it had no arena.
    ///
    /// # Errors
    /// Where the kernel gives none, or it is too small.
    pub unsafe fn map(&mut self, arena: Arena) -> Result<(), Error> {
        // SAFETY: not used yet, says the caller.
        unsafe { self.alloc.raw_lock().inherit() };
        let none = Error::OutOfAddressSpace { bytes: arena.bytes as u64 };
        let mapped = arena.bytes.checked_add(ARENA_ALIGN).ok_or(none)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping where the kernel likes.
        let base =
            unsafe { libc::mmap(null_mut(), mapped, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(none);
        }
        (self.base, self.mapped) = (base, mapped);
        let start = base.map_addr(|addr| addr.next_multiple_of(ARENA_ALIGN)).cast::<u8>();
        if arena.prefault && !prefault(start, arena.bytes) {
            self.unmap();
            return Err(none);
        }
        let page = (!arena.prefault).then_some(HOST_PAGE_BYTES);
        let Some(start) = NonNull::new(start) else { return Err(none) };
        // SAFETY: `bytes` bytes from `start` are in the mapping, which only this heap knows and which outlives it.
        match unsafe { RtHeap::new(start, arena.bytes, page) } {
            Ok(heap) => {
                self.blocks = Some(heap.blocks());
                self.alloc.set(heap);
            }
            Err(error) => {
                self.unmap();
                return Err(error);
            }
        }
        Ok(())
    }

    fn unmap(&mut self) {
        if self.mapped > 0 {
            // SAFETY: the mapping of `map`; the heap over it is gone or was never made.
            unsafe { libc::munmap(self.base, self.mapped) };
            self.mapped = 0;
        }
    }

    /// The heap, under the lock.
    ///
    /// # Errors
    /// What `call` says, or that there is no arena.
    pub fn with<R>(&self, call: impl FnOnce(&mut RtHeap) -> Result<R, Error>) -> Result<R, Error> {
        self.alloc.with(call)
    }

    /// malloc through a thread's cache. Without the lock where the cache, its spare magazine or a shelf has a block: a constant
    /// number of words. Otherwise under the lock for at most [`BATCH`](crate::BATCH) times [`rtvm::heap::MALLOC_TOUCHES`] words.
    ///
    /// # Errors
    /// As [`RtHeap::malloc`].
    #[inline]
    pub fn malloc(&self, cache: &mut ThreadCache, bytes: usize) -> Result<NonNull<u8>, Error> {
        let class = RtHeap::block_bytes(bytes).and_then(class_with_room);
        let (Some(class), Some(blocks)) = (class, self.blocks) else { return self.malloc_uncached(bytes) };
        match cache.take(class, &self.shelves[class], blocks) {
            Some(block) => Ok(block),
            None => self.make(cache, class, bytes, blocks),
        }
    }

    /// malloc under the lock.
    ///
    /// # Errors
    /// As [`RtHeap::malloc`].
    pub fn malloc_uncached(&self, bytes: usize) -> Result<NonNull<u8>, Error> {
        self.count_taken(bytes);
        self.with(|heap| heap.malloc(bytes))
    }

    /// memalign under the lock.
    ///
    /// # Errors
    /// As [`RtHeap::memalign`].
    pub fn memalign(&self, align: usize, bytes: usize) -> Result<NonNull<u8>, Error> {
        self.count_taken(bytes);
        self.with(|heap| heap.memalign(align, bytes))
    }

    /// realloc under the lock.
    ///
    /// # Safety
    /// As [`RtHeap::realloc`].
    ///
    /// # Errors
    /// As [`RtHeap::realloc`].
    pub unsafe fn realloc_uncached(&self, block: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>, Error> {
        self.count_taken(bytes);
        // SAFETY: the caller gives the old place up where this succeeds.
        self.with(|heap| unsafe { heap.realloc(block, bytes) })
    }

    fn count_taken(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that were asked of the arena so far, not of caches: there is no more to give back than that.
    pub fn taken_bytes(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// What [`Heap::malloc`] does in most calls: a block of the thread's current magazine. It calls nothing, and so keeps the
    /// processor's registers.
    #[inline(always)]
    pub fn malloc_quickly(&self, cache: &mut ThreadCache, bytes: usize) -> Option<NonNull<u8>> {
        let class = RtHeap::block_bytes(bytes).and_then(class_with_room)?;
        cache.take_quickly(class, self.blocks?)
    }

    /// What [`Heap::free`] does in most calls: into the thread's current magazine. `false`: nothing was done.
    ///
    /// # Safety
    /// As [`RtHeap::free`].
    #[inline(always)]
    pub unsafe fn free_quickly(&self, cache: &mut ThreadCache, block: NonNull<u8>) -> bool {
        let Some(blocks) = self.blocks else { return false };
        let Ok(bytes) = blocks.used_bytes(block) else { return false };
        class_of_block(bytes).is_some_and(|class| cache.put_quickly(class, block, blocks))
    }

    /// A block of a class of which nobody has one, and a few more.
    #[cold]
    fn make(
        &self,
        cache: &mut ThreadCache,
        class: usize,
        bytes: usize,
        blocks: Blocks,
    ) -> Result<NonNull<u8>, Error> {
        self.with(|heap| {
            let whole = class_bytes(class) - rtvm::tlsf::TAG_BYTES as usize;
            let Ok(first) = heap.malloc(whole) else {
                // Where memory is short, a block that is just large enough.
                return heap.malloc(bytes);
            };
            let asked = cache.ask(class);
            self.count_taken(whole * asked);
            for _ in 1..asked {
                // None left is no failure: the first one is there.
                let Ok(block) = heap.malloc(whole) else { break };
                cache.fill(class, block, blocks);
            }
            Ok(first)
        })
    }

    /// free through a thread's cache, whichever thread the block was given to. Without the lock but where both magazines of
    /// its class and the shelf are full: then under it for at most [`BATCH`](crate::BATCH) times [`rtvm::heap::FREE_TOUCHES`]
    /// words.
    ///
    /// # Safety
    /// As [`RtHeap::free`].
    ///
    /// # Errors
    /// As [`RtHeap::free`].
    #[inline]
    pub unsafe fn free(&self, cache: &mut ThreadCache, block: NonNull<u8>) -> Result<(), Error> {
        let Some(blocks) = self.blocks else { return Err(Error::NotABlock { addr: block.as_ptr() as u64 }) };
        let Some(class) = class_of_block(blocks.used_bytes(block)?) else {
            // SAFETY: given up by the caller.
            return self.with(|heap| unsafe { heap.free(block) });
        };
        match cache.put(class, block, &self.shelves[class], blocks) {
            None => Ok(()),
            Some(overflow) => self.release(overflow, blocks),
        }
    }

    /// realloc for a program whose threads have caches: without the lock where the block's class is the right one already.
    /// Otherwise as [`RtHeap::realloc`], to a size of a class.
    ///
    /// # Safety
    /// As [`RtHeap::realloc`].
    ///
    /// # Errors
    /// As [`RtHeap::realloc`].
    pub unsafe fn realloc(&self, block: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>, Error> {
        let Some(blocks) = self.blocks else { return Err(Error::NotABlock { addr: block.as_ptr() as u64 }) };
        let Some(class) = RtHeap::block_bytes(bytes).and_then(class_with_room) else {
            // SAFETY: the caller gives the old place up where this succeeds.
            return unsafe { self.realloc_uncached(block, bytes) };
        };
        if class_of_block(blocks.used_bytes(block)?) == Some(class) {
            return Ok(block);
        }
        let whole = class_bytes(class) - rtvm::tlsf::TAG_BYTES as usize;
        self.count_taken(whole);
        self.with(|heap| {
            // SAFETY: the caller gives the old place up where this succeeds; where it does not, the block is as it was.
            unsafe { heap.realloc(block, whole).or_else(|_| heap.realloc(block, bytes)) }
        })
    }

    #[cold]
    fn release(&self, mut overflow: Overflow, blocks: Blocks) -> Result<(), Error> {
        self.with(|heap| {
            while let Some(block) = overflow.next(blocks) {
                // SAFETY: its owner gave it to a cache, and the cache gives it up.
                unsafe { heap.free(block) }?;
            }
            Ok(())
        })
    }

    /// Releases all that a thread's cache holds; for its end. The lock is taken for a magazine at a time.
    ///
    /// # Errors
    /// The first tag that was written over; the blocks of that magazine stay in use.
    pub fn drain(&self, cache: &mut ThreadCache) -> Result<(), Error> {
        let Some(blocks) = self.blocks else { return Ok(()) };
        cache.drain().map(|magazine| self.release(magazine, blocks)).fold(Ok(()), Result::and)
    }

    /// The lock, for fork handlers.
    pub fn lock(&self) -> &PiMutex {
        self.alloc.raw_lock()
    }

    /// Bytes that the helper gave back to the kernel so far.
    pub fn returned_bytes(&self) -> u64 {
        self.returned.load(Ordering::Relaxed)
    }

    /// Gives a part of what waits back to the kernel, now and by the calling thread. False where nothing waits. Linear in
    /// pages, but others can use the heap meanwhile.
    pub fn return_some(&self) -> bool {
        self.return_aged(0)
    }

    /// The same for what has waited for so many periods.
    ///
    /// Ranges that wait can have holes of pages that are gone already, or were never there. They are asked for first: the
    /// tags that taking a part out needs must not bring pages in.
    fn return_aged(&self, least_periods: u8) -> bool {
        let waiting = self.with(|heap| Ok(heap.waiting()));
        let Ok(Some(Waiting { first, bytes, periods })) = waiting else { return false };
        if periods < least_periods {
            return false;
        }
        let mut resident = [0; RETURN_BYTES / HOST_PAGE_BYTES];
        let count = (bytes / HOST_PAGE_BYTES).min(resident.len());
        // SAFETY: pages of the arena, which stays mapped; a byte for each.
        let known =
            unsafe { libc::mincore(first.as_ptr().cast(), count * HOST_PAGE_BYTES, resident.as_mut_ptr()) }
                == 0;
        let is_there = |page: &u8| !known || page & 1 != 0;
        let absent = resident[..count].iter().take_while(|page| !is_there(page)).count();
        let present = resident[absent..count].iter().take_while(|page| is_there(page)).count();
        let skipped = match absent {
            0 if present < FEWEST_PAGES => present,
            _ => absent,
        };
        if skipped > 0 {
            let skip = |heap: &mut RtHeap| {
                heap.skip_waiting(first, skipped * HOST_PAGE_BYTES);
                Ok(())
            };
            return self.with(skip).is_ok();
        }
        let begin = |heap: &mut RtHeap| {
            // Not what came to be the next one meanwhile: which of its pages are there was not asked.
            let same = heap.waiting().is_some_and(|next| next.first == first);
            Ok(if same { heap.begin_return(present * HOST_PAGE_BYTES) } else { None })
        };
        let Ok(Some(pages)) = self.with(begin) else { return true };
        // SAFETY: whole pages of the arena that no block has until `end_return`.
        let done = unsafe { libc::madvise(pages.pages.as_ptr().cast(), pages.bytes, libc::MADV_DONTNEED) };
        if done == 0 {
            self.returned.fetch_add(pages.bytes as u64, Ordering::Relaxed);
        }
        self.with(|heap| heap.end_return(pages)).is_ok()
    }

    /// Starts the helper, a thread of the lowest importance.
    ///
    /// # Safety
    /// The heap does not move and lives until [`Heap::stop`] returned.
    pub unsafe fn start_helper(&self) -> bool {
        extern "C" fn help(heap: *mut c_void) -> *mut c_void {
            // SAFETY: `start_helper`'s caller keeps the heap alive.
            let heap = unsafe { &*heap.cast::<Heap>() };
            while heap.sleep() {
                let passed = heap.with(|heap| {
                    heap.pass_period();
                    Ok(())
                });
                while passed.is_ok() && !heap.is_stopping() && heap.return_aged(RETURN_PERIODS) {}
            }
            null_mut()
        }
        let mut thread = 0;
        // SAFETY: `self` lives long enough, says the caller. No signal of the program's is meant for the helper, so it starts
        // with all of them blocked.
        let made = unsafe {
            let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
            let made =
                libc::pthread_create(&mut thread, null(), help, std::ptr::from_ref(self).cast_mut().cast());
            libc::pthread_sigmask(libc::SIG_SETMASK, &old, null_mut());
            made
        };
        if made == 0 {
            self.helper.store(thread, Ordering::Relaxed);
        }
        made == 0
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) != 0
    }

    /// Sleeps for a period, or until the helper is to end: false.
    fn sleep(&self) -> bool {
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: a word and a time that outlive the call.
        unsafe { libc::syscall(libc::SYS_futex, self.stopping.as_ptr(), wait, 0, &raw const PERIOD) };
        !self.is_stopping()
    }

    /// Ends the helper and unmaps the arena.
    pub fn stop(&mut self) {
        self.stopping.store(1, Ordering::Relaxed);
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: wakes who sleeps on a word of this heap.
        unsafe { libc::syscall(libc::SYS_futex, self.stopping.as_ptr(), wake, 1) };
        let helper = self.helper.swap(0, Ordering::Relaxed);
        if helper != 0 {
            // SAFETY: our own thread, joined once.
            unsafe { libc::pthread_join(helper, null_mut()) };
        }
        self.unmap();
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes all pages of an arena present. Touches each of them, which is the point.
fn prefault(start: *mut u8, bytes: usize) -> bool {
    // Large pages where the kernel gives them: tags lie all over the arena, and with small pages each call would miss the
    // TLB. None is split or built later, because no page is ever given back.
    // SAFETY: the pages of a new mapping, which nobody else knows.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
    // SAFETY: the pages of a new mapping, which nobody else knows.
    let populated = unsafe { libc::madvise(start.cast(), bytes, libc::MADV_POPULATE_WRITE) } == 0;
    if !populated {
        // A kernel before 5.14.
        for offset in (0..bytes).step_by(HOST_PAGE_BYTES) {
            // SAFETY: inside the new mapping; a byte that is zero already.
            unsafe { start.add(offset).write_volatile(0) };
        }
    }
    // Best effort: a user may not lock as much, and a machine without swap does not need it.
    // SAFETY: the pages of a new mapping, which nobody else knows.
    unsafe { libc::mlock(start.cast(), bytes) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_stay_until_nobody_wanted_them_for_a_while() {
        let mut heap = Box::new(Heap::new());
        // SAFETY: nobody uses it yet, and a box does not move.
        unsafe { heap.map(Arena { bytes: 16 << 20, prefault: false }) }.expect("an arena");
        let block = heap.with(|heap| heap.malloc(4 << 20)).expect("room");
        // SAFETY: a live block of these bytes.
        unsafe { block.as_ptr().write_bytes(1, 4 << 20) };
        // SAFETY: not used any more.
        heap.with(|heap| unsafe { heap.free(block) }).expect("a block");
        for _ in 0..RETURN_PERIODS {
            assert!(!heap.return_aged(RETURN_PERIODS));
            let pass = |heap: &mut RtHeap| {
                heap.pass_period();
                Ok(())
            };
            heap.with(pass).expect("a heap");
        }
        assert_eq!(heap.returned_bytes(), 0);
        while heap.return_aged(RETURN_PERIODS) {}
        assert!(heap.returned_bytes() > 3 << 20, "{}", heap.returned_bytes());
        heap.stop();
    }
}
