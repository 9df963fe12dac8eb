//! A fully associative cache of non-overlapping ranges, each with a status: the contents of range
//! caches and protection lookaside buffers. The hardware compares all entries at once. Here a
//! table of guesses finds the entry of a recent neighbour, and a sorted list finds all others.

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
    /// How many of the starts were before the address last looked for.
    cursor: usize,
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
            cursor: 0,
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

    /// How many entries start at `addr` or before. Changes are a handful of such questions about neighbours, so the last
    /// answer mostly holds again, or the next one.
    #[inline]
    fn upto(&mut self, addr: u64) -> usize {
        let holds = |at: usize| {
            at.checked_sub(1).is_none_or(|before| self.starts.get(before).is_some_and(|&start| start <= addr))
                && self.starts.get(at).is_none_or(|&start| start > addr)
        };
        if !holds(self.cursor) {
            self.cursor = if holds(self.cursor + 1) {
                self.cursor + 1
            } else {
                self.starts.partition_point(|&start| start <= addr)
            };
        }
        self.cursor
    }

    /// The place of the entry that starts at `addr`.
    #[inline]
    fn place(&mut self, addr: u64) -> Option<usize> {
        let before = self.upto(addr).checked_sub(1)?;
        (self.starts[before] == addr).then_some(before)
    }

    #[inline(never)]
    fn search(&mut self, addr: u64) -> Option<CacheSlot<T>> {
        let at = self.upto(addr);
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
    pub(crate) fn space(&mut self, addr: u64) -> Range<u64> {
        let at = self.upto(addr);
        let start = at.checked_sub(1).map_or(0, |before| self.slots[usize::from(self.owners[before])].end);
        start..self.starts.get(at).copied().unwrap_or(u64::MAX)
    }

    /// The entry that ends where `addr` is.
    pub(crate) fn ending_at(&mut self, addr: u64) -> Option<CacheSlot<T>> {
        let at = self.upto(addr.checked_sub(1)?).checked_sub(1)?;
        Some(self.slots[usize::from(self.owners[at])]).filter(|slot| slot.end == addr)
    }

    /// The entry that starts at `addr`.
    pub(crate) fn starting_at(&mut self, addr: u64) -> Option<CacheSlot<T>> {
        let at = self.place(addr)?;
        Some(self.slots[usize::from(self.owners[at])])
    }

    /// The first entry that meets `range`, not counted as a use.
    pub(crate) fn first_in(&mut self, range: &Range<u64>) -> Option<CacheSlot<T>> {
        let at = self.upto(range.start);
        let before = at.checked_sub(1).map(|at| self.slots[usize::from(self.owners[at])]);
        let next = self.owners.get(at).map(|&owner| self.slots[usize::from(owner)]);
        before.filter(|slot| slot.end > range.start).or(next.filter(|slot| slot.start < range.end))
    }

    /// Removes the entry that starts at `start`.
    pub(crate) fn remove(&mut self, start: u64) {
        let Some(at) = self.place(start) else { return };
        let owner = self.owners[at];
        self.starts.remove(at);
        self.owners.remove(at);
        self.slots[usize::from(owner)] =
            CacheSlot { start: u64::MAX, end: 0, status: T::default(), dirty: false };
        self.recency.forget(owner.into());
        self.free.push(owner);
    }

    /// Enters an entry that meets no other. Where there is no room it takes that of the entry to give up next, which is
    /// returned.
    pub(crate) fn insert(&mut self, slot: CacheSlot<T>) -> Option<CacheSlot<T>> {
        let mut at = self.upto(slot.start);
        let (owner, old) = match self.free.pop() {
            Some(owner) => {
                self.starts.insert(at, slot.start);
                self.owners.insert(at, owner);
                (owner, None)
            }
            None => {
                let owner = self.recency.victim() as u16;
                self.recency.forget(owner.into());
                let old = self.slots[usize::from(owner)];
                // Only what lies between the two moves.
                let hole = self.starts.partition_point(|&start| start < old.start);
                if hole < at {
                    at -= 1;
                    self.starts.copy_within(hole + 1..=at, hole);
                    self.owners.copy_within(hole + 1..=at, hole);
                } else {
                    self.starts.copy_within(at..hole, at + 1);
                    self.owners.copy_within(at..hole, at + 1);
                }
                self.starts[at] = slot.start;
                self.owners[at] = owner;
                (owner, Some(old))
            }
        };
        self.hints[hint(slot.start)] = owner;
        self.slots[usize::from(owner)] = slot;
        self.recency.touch(owner.into());
        old
    }

    /// Replaces the status of the entry that starts at `start`.
    pub(crate) fn update(&mut self, start: u64, status: T, dirty: bool) {
        if let Some(at) = self.place(start) {
            let slot = &mut self.slots[usize::from(self.owners[at])];
            slot.status = status;
            slot.dirty |= dirty;
        }
    }
}
