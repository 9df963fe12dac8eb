//! Landing places for punned jumps: short pieces of code at addresses that the program's own bytes dictate.
//!
//! A jump that may only change the first bytes of its displacement reaches a window of addresses; some five bytes there
//! must be free to map. Pages are shared by all landings that fall on them. (The technique is e9patch's.)

use patch::near;
use std::{collections::BTreeMap, sync::Mutex};

const PAGE: usize = patch::PAGE_BYTES;
const LANDING: usize = 5;
/// What is mapped at once where it is free: functions near each other that begin alike dictate places near each other.
const BLOCK: usize = 16 * PAGE;
/// Mappings that may be made for landings; a process has some 65,000.
const MOST_MAPPINGS: usize = 16_384;

/// What is mapped so far, and what of it is taken.
struct Landings {
    /// Start and length of each mapping.
    mapped: BTreeMap<usize, usize>,
    /// Pages with landings on them; a bit for each byte that is taken.
    used: BTreeMap<usize, [u64; PAGE / 64]>,
}

static LANDINGS: Mutex<Landings> = Mutex::new(Landings { mapped: BTreeMap::new(), used: BTreeMap::new() });

/// Five writable, executable bytes whose address lies in `[low, high]`, if there are.
pub fn landing(low: usize, high: usize) -> Option<usize> {
    if low < 0x1_0000 || high < low || high >= 0x7fff_ffff_0000 {
        return None;
    }
    LANDINGS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).find(low, high)
}

/// Whether `addr` lies in a mapping for landings; asked while no other thread runs, so it never waits.
pub(crate) fn contains(addr: usize) -> bool {
    match LANDINGS.try_lock() {
        Ok(landings) => landings.is_mapped(addr),
        // A stopped thread holds it, so it is inside.
        Err(_) => true,
    }
}

impl Landings {
    fn find(&mut self, low: usize, high: usize) -> Option<usize> {
        // Pages in use first, then the rest of what is mapped.
        let used: Vec<usize> = self.used.range(low & !(PAGE - 1)..=high).map(|(page, _)| *page).collect();
        let before = self.mapped.range(..low).next_back().map(|(start, len)| (*start, *len));
        let mapped: Vec<(usize, usize)> = before
            .into_iter()
            .chain(self.mapped.range(low..=high).map(|(start, len)| (*start, *len)))
            .collect();
        for page in used {
            if let Some(at) = self.free_on(page, low, high) {
                return Some(self.take(at));
            }
        }
        for (start, len) in mapped {
            let pages = (start.max(low & !(PAGE - 1))..(start + len).min(high + 1)).step_by(PAGE);
            for page in pages.filter(|page| !self.used.contains_key(page)).collect::<Vec<_>>() {
                if let Some(at) = self.free_on(page, low, high) {
                    return Some(self.take(at));
                }
            }
        }
        // A handful of places over the window; when all are taken by others the function gets a trap instead.
        let step = ((high - low) / 16).max(PAGE);
        for at in (low..=high).step_by(step).take(17) {
            let page = at & !(PAGE - 1);
            let is_mapped = [page, page + PAGE]
                .into_iter()
                .filter(|p| *p == page || at + LANDING > page + PAGE)
                .all(|p| self.is_mapped(p) || self.map_around(p));
            if is_mapped && let Some(at) = self.free_on(page, low, high) {
                return Some(self.take(at));
            }
        }
        None
    }

    fn is_mapped(&self, addr: usize) -> bool {
        self.mapped.range(..=addr).next_back().is_some_and(|(start, len)| addr < start + len)
    }

    /// Maps `page`, with the block around it where that is free.
    fn map_around(&mut self, page: usize) -> bool {
        if self.mapped.len() >= MOST_MAPPINGS {
            return false;
        }
        let block = page & !(BLOCK - 1);
        let (start, len_bytes) = match near::map_empty(block, BLOCK) {
            Some(start) => (start, BLOCK),
            None if near::map_empty(page, PAGE).is_some() => (page, PAGE),
            None => return false,
        };
        self.mapped.insert(start, len_bytes);
        true
    }

    /// The lowest free place that begins on a mapped page.
    fn free_on(&self, page: usize, low: usize, high: usize) -> Option<usize> {
        let next_is_mapped = self.is_mapped(page + PAGE);
        let last = if next_is_mapped { page + PAGE - 1 } else { page + PAGE - LANDING };
        let of = |page: usize| self.used.get(&page).copied().unwrap_or([0; PAGE / 64]);
        let (here, next) = (of(page), if next_is_mapped { of(page + PAGE) } else { [0; PAGE / 64] });
        let is_taken = |offset: usize| {
            let (bits, offset) = if offset < PAGE { (&here, offset) } else { (&next, offset - PAGE) };
            bits[offset / 64] >> (offset % 64) & 1 != 0
        };
        let mut at = low.max(page);
        while at <= high.min(last) {
            match (0..LANDING).rev().find(|byte| is_taken(at + byte - page)) {
                None => return Some(at),
                Some(taken) => at += taken + 1,
            }
        }
        None
    }

    fn take(&mut self, at: usize) -> usize {
        for byte in at..at + LANDING {
            let page = byte & !(PAGE - 1);
            let bits = self.used.entry(page).or_insert_with(|| {
                // SAFETY: a page of ours that nothing leads to yet; a stray jump there must trap.
                unsafe { std::ptr::write_bytes(page as *mut u8, patch::INT3, PAGE) };
                [0; PAGE / 64]
            });
            bits[byte % PAGE / 64] |= 1 << (byte % PAGE % 64);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landings_lie_where_they_are_wanted_and_never_overlap() {
        let mut landings = Landings { mapped: BTreeMap::new(), used: BTreeMap::new() };
        let base = 0x2345_6789_0000usize;
        let mut found: Vec<usize> = Vec::new();
        // Windows of one address, of 256, and of many pages, again and again over the same ground.
        for round in 0..4000usize {
            let low = base + round * 37 % 9000;
            let high = low + [0, 255, 0xffff][round % 3];
            if let Some(at) = landings.find(low, high) {
                assert!((low..=high).contains(&at), "{at:#x} in {low:#x}..={high:#x}");
                // SAFETY: handed out as writable for five bytes.
                unsafe { std::ptr::write_bytes(at as *mut u8, 0x90, LANDING) };
                found.push(at);
            }
        }
        assert!(found.len() > 1500, "{}", found.len());
        found.sort_unstable();
        assert!(found.windows(2).all(|pair| pair[1] - pair[0] >= LANDING));
        assert!(!landings.is_mapped(base - BLOCK) && landings.is_mapped(found[0]));
    }
}
