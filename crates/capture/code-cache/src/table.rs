//! The table in which indirect branches look up their targets.
//!
//! It lies below 2 GiB, so that code reaches it by absolute address. Where the program has reserved all of that for
//! itself (as Chromium does), it lies anywhere else, at the cost of four more instructions per branch. An indirect
//! branch, including a return, jumps through a *way*, whose number is given by the target's low 16 bits. A way is a
//! piece of code that compares the target with the one it serves, and continues at that target's block or at the search.
//! Way 0 is the search, so a table without any other way is all zeros, and its pages exist only once they are needed.
//!
//! The search looks through 65,536 pairs of words and some more: the pair for a target is at the target's low 16 bits or in one of the
//! next free places. A pair is the negated target (so that a sum of zero means a match, without flags) and the code to go to. A pair that
//! is set only ever changes to one that matches nothing: a thread between comparing it and jumping must not find another target's code.

use core::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use tracee::sys;

const PAIRS: usize = 65_536;
/// Places after the last, so that a search needs no wrapping.
const SPARE: usize = 256;
/// The last pair is never entered, so that a search ends there.
const WAYS_AT: usize = (PAIRS + SPARE + 1) * 16;
/// Where the ways' numbers are, of 16 bits.
const NUMBERS_AT: usize = WAYS_AT + PAIRS * 8;
const BYTES: usize = NUMBERS_AT + PAIRS * 2;
/// How far from its first place a target may be entered.
const REACH: usize = 128;
/// A negated target that no target has.
const DEAD: u64 = 1;

/// One table.
#[derive(Debug)]
pub(crate) struct BranchTable {
    base: u64,
    /// Ways that have a number, the search included.
    numbered: AtomicUsize,
}

impl BranchTable {
    /// Makes an empty one. `None` where there is no room.
    pub(crate) fn new() -> Option<Self> {
        Self::low().or_else(Self::anywhere)
    }

    fn at(base: u64) -> Self {
        Self { base, numbered: AtomicUsize::new(1) }
    }

    fn anywhere() -> Option<Self> {
        let at = sys::map_anonymous(BYTES as u64, sys::PROT_READ | sys::PROT_WRITE)?;
        Some(Self::at(at as u64))
    }

    /// Below 2 GiB.
    fn low() -> Option<Self> {
        let rw = sys::PROT_READ | sys::PROT_WRITE;
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
        let mut at = 0x7e00_0000u64;
        while at > 0x1000_0000 {
            // SAFETY: NOREPLACE replaces nothing.
            let result = unsafe { sys::mmap(at, BYTES as u64, rw, flags, -1, 0) };
            if result as u64 == at {
                sys::note_own(at, BYTES as u64);
                return Some(Self::at(at));
            }
            if !sys::failed(result) {
                // SAFETY: an older kernel took the address as a hint; nobody knows of the mapping.
                unsafe { sys::munmap(result as u64, BYTES as u64) };
            }
            at -= 0x0100_0000;
        }
        None
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// Nobody looks anything up in it any more.
    pub(crate) unsafe fn unmap(&self) {
        // SAFETY: the caller's promise.
        unsafe { sys::munmap(self.base, BYTES as u64) };
    }

    /// Address of the pairs.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Address of the ways.
    pub(crate) fn ways(&self) -> u64 {
        self.base + WAYS_AT as u64
    }

    /// Address of the numbers of the ways, by the low 16 bits of targets.
    pub(crate) fn way_numbers(&self) -> u64 {
        self.base + NUMBERS_AT as u64
    }

    /// Address of the word that says where the search begins: the first way.
    pub(crate) fn probe(&self) -> u64 {
        self.ways()
    }

    /// Whether it is known where the search begins.
    pub(crate) fn has_probe(&self) -> bool {
        self.way(0).load(Ordering::Relaxed) != 0
    }

    /// Says where the search begins.
    pub(crate) fn set_probe(&self, probe: u64) {
        self.way(0).store(probe, Ordering::Release);
    }

    fn way(&self, number: u16) -> &AtomicU64 {
        let ways = self.ways() as *const AtomicU64;
        // SAFETY: the table has that many ways and is never unmapped.
        unsafe { &*ways.add(number.into()) }
    }

    /// The number of a target's way; zero where it has none.
    fn number(&self, target: u64) -> &AtomicU16 {
        let numbers = self.way_numbers() as *const AtomicU16;
        // SAFETY: the table has that many numbers and is never unmapped.
        unsafe { &*numbers.add(usize::from(target as u16)) }
    }

    /// Whether no target has taken the way of this one.
    pub(crate) fn is_way_free(&self, target: u64) -> bool {
        match self.number(target).load(Ordering::Relaxed) {
            0 => self.numbered.load(Ordering::Relaxed) < PAIRS,
            number => self.way(number).load(Ordering::Relaxed) == self.way(0).load(Ordering::Relaxed),
        }
    }

    /// Sets a target's way. There are as many as numbers but one, so that the last target may have to be searched for.
    pub(crate) fn set_way(&self, target: u64, code: u64) {
        let number = self.number(target);
        let known = number.load(Ordering::Relaxed);
        if known != 0 {
            self.way(known).store(code, Ordering::Release);
            return;
        }
        let new = self.numbered.load(Ordering::Relaxed);
        if new < PAIRS {
            self.numbered.store(new + 1, Ordering::Relaxed);
            self.way(new as u16).store(code, Ordering::Release);
            number.store(new as u16, Ordering::Release);
        }
    }

    fn pair(&self, index: usize) -> Option<(&AtomicU64, &AtomicU64)> {
        if index >= PAIRS + SPARE {
            return None;
        }
        let words = self.base as *const AtomicU64;
        // SAFETY: the table has that many pairs and is never unmapped.
        Some(unsafe { (&*words.add(index * 2), &*words.add(index * 2 + 1)) })
    }

    fn places(target: u64) -> core::ops::Range<usize> {
        let first = target as usize & 0xffff;
        first..first + REACH
    }

    /// Enters a target. Where its places are full it is left out: branches to it leave the cache each time.
    pub(crate) fn insert(&self, target: u64, code: u64) {
        for index in Self::places(target) {
            let Some((tag, place)) = self.pair(index) else { return };
            let found = tag.load(Ordering::Relaxed);
            if found == target.wrapping_neg() {
                return;
            }
            if found == 0 {
                place.store(code, Ordering::Relaxed);
                tag.store(target.wrapping_neg(), Ordering::Release);
                return;
            }
        }
    }

    /// Other code for a target that is entered. `false`: it is not.
    pub(crate) fn replace(&self, target: u64, code: u64) -> bool {
        let found =
            |index| self.pair(index).filter(|(tag, _)| tag.load(Ordering::Relaxed) == target.wrapping_neg());
        let Some((_, place)) = Self::places(target).find_map(found) else { return false };
        place.store(code, Ordering::Release);
        true
    }

    /// Makes a target match nothing. The way may be another one's, which is searched for from now on.
    pub(crate) fn remove(&self, target: u64) {
        let number = self.number(target).load(Ordering::Relaxed);
        if number != 0 {
            self.way(number).store(self.way(0).load(Ordering::Relaxed), Ordering::Release);
        }
        for index in Self::places(target) {
            let Some((tag, _)) = self.pair(index) else { return };
            let found = tag.load(Ordering::Relaxed);
            if found == target.wrapping_neg() {
                tag.store(DEAD, Ordering::Release);
            }
            if found == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a branch to a target goes, by the instructions of `Assembler::jump_by_number`.
    fn way(table: &BranchTable, target: u64) -> u64 {
        let number = (table.way_numbers() + (target & 0xffff) * 2) as *const u16;
        // SAFETY: inside the table, which is mapped.
        unsafe { ((table.ways() + u64::from(*number) * 8) as *const u64).read() }
    }

    #[test]
    fn a_way_is_taken_by_one_target_until_that_is_removed() {
        let (search, target) = (0x1000, 0x7f00_1234_5678);
        let other = target + 0x10000;
        let table = BranchTable::new().expect("memory");
        assert!(!table.has_probe());
        table.set_probe(search);
        assert!(table.has_probe() && table.is_way_free(target));
        assert_eq!([way(&table, target), way(&table, 0)], [search; 2]);
        table.set_way(target, 0x2000);
        assert_eq!([way(&table, other), way(&table, target + 1)], [0x2000, search]);
        assert!(!table.is_way_free(other) && table.is_way_free(target + 1));
        table.set_way(target, 0x3000);
        assert_eq!(way(&table, target), 0x3000);
        table.remove(target);
        assert!(table.is_way_free(other) && way(&table, other) == search);
        table.set_way(other, 0x4000);
        assert_eq!(way(&table, target), 0x4000);
        // SAFETY: nobody looks anything up.
        unsafe { table.unmap() };
    }

    #[test]
    fn the_last_of_all_targets_has_no_way() {
        let table = BranchTable::new().expect("memory");
        table.set_probe(1);
        (0..PAIRS as u64).for_each(|target| table.set_way(target, target + 2));
        let last = PAIRS as u64 - 1;
        assert!((0..last).all(|target| way(&table, target) == target + 2));
        assert!(way(&table, last) == 1 && !table.is_way_free(last));
        // SAFETY: nobody looks anything up.
        unsafe { table.unmap() };
    }
}
