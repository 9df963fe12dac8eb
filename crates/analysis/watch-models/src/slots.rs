//! A fully associative cache of ranges that do not overlap, each with a status: what range caches and protection lookaside
//! buffers hold. The hardware compares all entries at once; here a table of guesses finds the one of a recent neighbour,
//! and a sorted list all others.

use std::ops::Range;

use crate::recency::Recency;

const HINTS: usize = 1024;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheSlot<T> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) status: T,
    pub(crate) dirty: bool,
}

/// The cache.
#[derive(Clone, Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<CacheSlot<T>>,
    free: Vec<u16>,
    /// Starts in order, and whose they are.
    starts: Vec<u64>,
    owners: Vec<u16>,
    recency: Recency,
    hints: Box<[u16; HINTS]>,
}

fn hint(addr: u64) -> usize {
    // Neighbouring blocks of 32 bytes guess separately; pages are spread.
    ((addr >> 5) ^ (addr >> 15)) as usize % HINTS
}

impl<T: Copy + Default> Slots<T> {
    pub(crate) fn new(entries: usize) -> Self {
        let entries = entries.clamp(2, usize::from(u16::MAX));
        let empty = CacheSlot { start: u64::MAX, end: 0, status: T::default(), dirty: false };
        Self {
            slots: vec![empty; entries],
            free: (0..entries as u16).rev().collect(),
            starts: Vec::with_capacity(entries),
            owners: Vec::with_capacity(entries),
            recency: Recency::new(entries),
            hints: Box::new([0; HINTS]),
        }
    }

    /// The entry that holds `addr`; it is then the last used one.
    #[inline]
    pub(crate) fn find(&mut self, addr: u64) -> Option<CacheSlot<T>> {
        let guess = self.hints[hint(addr)];
        let slot = &self.slots[usize::from(guess)];
        if slot.start <= addr && addr < slot.end {
            self.recency.touch(guess.into());
            return Some(*slot);
        }
        self.search(addr)
    }

    #[inline(never)]
    fn search(&mut self, addr: u64) -> Option<CacheSlot<T>> {
        let at = self.starts.partition_point(|&start| start <= addr);
        let owner = *self.owners.get(at.checked_sub(1)?)?;
        let slot = self.slots[usize::from(owner)];
        if addr >= slot.end {
            return None;
        }
        self.hints[hint(addr)] = owner;
        self.recency.touch(owner.into());
        Some(slot)
    }

    /// The space between the entries around `addr`, which is in none.
    pub(crate) fn space(&self, addr: u64) -> Range<u64> {
        let at = self.starts.partition_point(|&start| start <= addr);
        let start = at.checked_sub(1).map_or(0, |before| self.slots[usize::from(self.owners[before])].end);
        start..self.starts.get(at).copied().unwrap_or(u64::MAX)
    }

    /// The entry that ends where `addr` is.
    pub(crate) fn ending_at(&self, addr: u64) -> Option<CacheSlot<T>> {
        let at = self.starts.partition_point(|&start| start < addr).checked_sub(1)?;
        Some(self.slots[usize::from(self.owners[at])]).filter(|slot| slot.end == addr)
    }

    /// The entry that starts at `addr`.
    pub(crate) fn starting_at(&self, addr: u64) -> Option<CacheSlot<T>> {
        let at = self.starts.binary_search(&addr).ok()?;
        Some(self.slots[usize::from(self.owners[at])])
    }

    /// The first entry that meets `range`, not counted as a use.
    pub(crate) fn first_in(&self, range: &Range<u64>) -> Option<CacheSlot<T>> {
        let at = self.starts.partition_point(|&start| start <= range.start);
        let before = at.checked_sub(1).map(|at| self.slots[usize::from(self.owners[at])]);
        let next = self.owners.get(at).map(|&owner| self.slots[usize::from(owner)]);
        before.filter(|slot| slot.end > range.start).or(next.filter(|slot| slot.start < range.end))
    }

    /// Whether there is no room but that of the entry to give up.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Removes the entry to give up next.
    pub(crate) fn evict(&mut self) -> CacheSlot<T> {
        let slot = self.slots[self.recency.victim()];
        self.remove(slot.start);
        slot
    }

    /// Removes the entry that starts at `start`.
    pub(crate) fn remove(&mut self, start: u64) {
        let Ok(at) = self.starts.binary_search(&start) else { return };
        let owner = self.owners[at];
        self.starts.remove(at);
        self.owners.remove(at);
        self.slots[usize::from(owner)] =
            CacheSlot { start: u64::MAX, end: 0, status: T::default(), dirty: false };
        self.recency.forget(owner.into());
        self.free.push(owner);
    }

    /// Enters an entry that meets no other; there must be room.
    pub(crate) fn insert(&mut self, slot: CacheSlot<T>) {
        let owner = self.free.pop().expect("the caller evicts first");
        let at = self.starts.partition_point(|&start| start < slot.start);
        self.starts.insert(at, slot.start);
        self.owners.insert(at, owner);
        self.hints[hint(slot.start)] = owner;
        self.slots[usize::from(owner)] = slot;
        self.recency.touch(owner.into());
    }

    /// Replaces the status of the entry that starts at `start`.
    pub(crate) fn update(&mut self, start: u64, status: T, dirty: bool) {
        if let Ok(at) = self.starts.binary_search(&start) {
            let slot = &mut self.slots[usize::from(self.owners[at])];
            slot.status = status;
            slot.dirty |= dirty;
        }
    }
}
