//! Where indirect branches look their targets up.
//!
//! Below 2 GiB, so that code reaches it by absolute address; where the program has reserved all of that for itself (as Chromium
//! does), anywhere else, for three instructions more a branch. An indirect branch, a return included, jumps through one of 65,536
//! *ways*, which its target's low 16 bits choose: a piece of code that compares the target with the one it is for, and goes
//! on to that one's block or to the search. The search looks through 65,536 pairs of words and some more, the pair for a
//! target at the target's low 16 bits or in one of the next free places. A pair is the negated target (so that a sum of zero
//! means a match, without flags) and the code to go to. A pair, once set, is only ever made to match nothing: a thread between
//! looking at it and going there must not find another target's code.

use core::sync::atomic::{AtomicU64, Ordering};
use tracee::sys;

const PAIRS: usize = 65_536;
/// Places after the last, so that a search needs no wrapping.
const SPARE: usize = 256;
/// The last pair is never entered, so that a search ends there; its second word is where searches begin.
const PROBE_AT: usize = (PAIRS + SPARE) * 16 + 8;
const WAYS_AT: usize = PROBE_AT + 8;
const BYTES: usize = WAYS_AT + PAIRS * 8;
/// How far from its first place a target may be entered.
const REACH: usize = 128;
/// A negated target that no target has.
const DEAD: u64 = 1;

/// One table.
#[derive(Debug)]
pub(crate) struct BranchTable {
    base: u64,
}

impl BranchTable {
    /// Makes an empty one. `None` where there is no room.
    pub(crate) fn new() -> Option<Self> {
        Self::low().or_else(Self::anywhere)
    }

    fn anywhere() -> Option<Self> {
        let at = sys::map_anonymous(BYTES as u64, sys::PROT_READ | sys::PROT_WRITE)?;
        Some(Self { base: at as u64 })
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
                return Some(Self { base: at });
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

    /// Address of the word that says where the search begins.
    pub(crate) fn probe(&self) -> u64 {
        self.base + PROBE_AT as u64
    }

    fn probe_word(&self) -> &AtomicU64 {
        // SAFETY: a word of the table, which is never unmapped.
        unsafe { &*((self.base + PROBE_AT as u64) as *const AtomicU64) }
    }

    /// Whether it is known where the search begins.
    pub(crate) fn has_probe(&self) -> bool {
        self.probe_word().load(Ordering::Relaxed) != 0
    }

    /// Says where the search begins: all ways lead there at first.
    pub(crate) fn set_probe(&self, probe: u64) {
        // All of it is about to be written: one call in place of a hundred faults.
        // SAFETY: it is the table's.
        unsafe { sys::populate(self.ways(), PAIRS as u64 * 8) };
        self.probe_word().store(probe, Ordering::Relaxed);
        (0..PAIRS as u64).for_each(|target| self.set_way(target, probe));
    }

    fn way(&self, target: u64) -> &AtomicU64 {
        let ways = (self.base + WAYS_AT as u64) as *const AtomicU64;
        // SAFETY: the table has that many ways and is never unmapped.
        unsafe { &*ways.add(target as usize & 0xffff) }
    }

    /// Whether no target has taken the way of this one.
    pub(crate) fn is_way_free(&self, target: u64) -> bool {
        self.way(target).load(Ordering::Relaxed) == self.probe_word().load(Ordering::Relaxed)
    }

    /// Sets a target's way.
    pub(crate) fn set_way(&self, target: u64, code: u64) {
        self.way(target).store(code, Ordering::Release);
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
        self.set_way(target, self.probe_word().load(Ordering::Relaxed));
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
