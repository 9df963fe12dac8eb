//! Landing places for punned jumps: short pieces of code at addresses that the program's own bytes dictate.
//!
//! A jump that may only change the first bytes of its displacement reaches a window of addresses; some five
//! bytes there must be free to map. Pages are shared by all landings on them. (The technique is e9patch's.)
//!
//! When an attachment ends, some hundreds of such mappings are unmapped ([`release`]);
//! the next attachment maps them again at the same addresses ([`reclaim`]).

use patch::{CodeAddr, JMP_REL32, callpatch, near, sys};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

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
    /// Where each landing leads.
    jumps: BTreeMap<usize, CodeAddr>,
    /// Mappings whose place is kept by one without rights, by their start.
    kept: BTreeSet<usize>,
    /// Whether all of this is only remembered.
    is_released: bool,
}

static LANDINGS: Mutex<Landings> = Mutex::new(Landings::new());

/// A jump to `target` whose address lies in `[low, high]`, if there is room.
pub fn landing(low: usize, high: usize, target: CodeAddr) -> Option<usize> {
    if low < 0x1_0000 || high < low || high >= 0x7fff_ffff_0000 {
        return None;
    }
    let mut landings = lock();
    let at = landings.find(low, high)?;
    landings.jump(at, target)?;
    Some(at)
}

fn lock() -> MutexGuard<'static, Landings> {
    LANDINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a landing begins at `addr`.
pub(crate) fn is_landing(addr: usize) -> bool {
    let landings = lock();
    !landings.is_released && landings.jumps.contains_key(&addr)
}

/// Whether a landing begins at any of these addresses; asked while no other thread runs, so it never waits, nor allocates.
pub(crate) fn is_any_landing(mut words: impl Iterator<Item = usize>) -> bool {
    LANDINGS.try_lock().map_or(true, |landings| words.any(|word| landings.jumps.contains_key(&word)))
}

/// Unmaps all landings; nothing may lead there. Neither waits nor allocates.
///
/// # Safety
/// No site may lead to a landing, and no thread may be about to return to one.
pub(crate) unsafe fn release() {
    let Ok(mut landings) = LANDINGS.try_lock() else { return };
    if landings.is_released {
        return;
    }
    landings.is_released = true;
    for (start, len_bytes) in &landings.mapped {
        let is_kept = landings.kept.contains(start);
        let call = if is_kept { libc::SYS_mprotect } else { libc::SYS_munmap };
        // SAFETY: a mapping of ours, and the caller vouches for it that nobody goes there. No rights are the number 0.
        unsafe { sys::syscall(call, [*start, *len_bytes, 0, 0, 0, 0]) };
    }
}

/// Has the place of the landing at `addr` kept when the others are given back, as the next attachment can't do without it.
pub(crate) fn keep(addr: usize) {
    let mut landings = lock();
    for byte in [addr, addr + LANDING - 1] {
        if let Some(start) = landings.mapped.range(..=byte).next_back().map(|(start, _)| *start) {
            landings.kept.insert(start);
        }
    }
}

/// Maps the landings again that [`release`] unmapped, but for those whose place is taken.
pub(crate) fn reclaim() {
    let mut landings = lock();
    if std::mem::take(&mut landings.is_released) {
        landings.map_again();
    }
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
    const fn new() -> Self {
        Self {
            mapped: BTreeMap::new(),
            used: BTreeMap::new(),
            jumps: BTreeMap::new(),
            kept: BTreeSet::new(),
            is_released: false,
        }
    }

    /// Writes the jump of a landing.
    fn jump(&mut self, at: usize, target: CodeAddr) -> Option<()> {
        let displacement = callpatch::displacement(CodeAddr(at), target).ok()?;
        // SAFETY: five executable bytes of ours that no site leads to yet.
        unsafe {
            (at as *mut u8).write(JMP_REL32);
            ((at + 1) as *mut u32).write_unaligned(displacement);
        }
        self.jumps.insert(at, target);
        Some(())
    }

    fn map_again(&mut self) {
        let kept = &self.kept;
        self.mapped.retain(|start, len_bytes| {
            if !kept.contains(start) {
                return near::map_empty(*start, *len_bytes).is_some();
            }
            let rights = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as usize;
            // SAFETY: a mapping of ours, which nothing leads to yet.
            unsafe { sys::syscall(libc::SYS_mprotect, [*start, *len_bytes, rights, 0, 0, 0]) == 0 }
        });
        let (used, jumps) = (std::mem::take(&mut self.used), std::mem::take(&mut self.jumps));
        for (page, bits) in used {
            if self.is_mapped(page) {
                // SAFETY: a page of ours that nothing leads to yet.
                unsafe { std::ptr::write_bytes(page as *mut u8, patch::INT3, PAGE) };
                self.used.insert(page, bits);
            }
        }
        for (at, target) in jumps {
            if self.is_mapped(at) && self.is_mapped(at + LANDING - 1) {
                self.jump(at, target);
            }
        }
    }

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
        let mut landings = Landings::new();
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

    #[test]
    fn landings_come_back_where_they_were_but_for_what_is_taken() {
        let mut landings = Landings::new();
        let base = 0x2345_9999_0000usize;
        let target = CodeAddr(base + 0x10_0000);
        let places = [base, base + 4 * BLOCK, base + 4 * BLOCK + 100].map(|low| {
            let at = landings.find(low, low + 10).unwrap();
            landings.jump(at, target).unwrap();
            at
        });
        // SAFETY: code of this test.
        let bytes = |at: usize| unsafe { patch::store::read(at, LANDING) };
        let before = places.map(bytes);
        for (start, len_bytes) in &landings.mapped {
            // SAFETY: mappings of this test.
            unsafe { sys::syscall(libc::SYS_munmap, [*start, *len_bytes, 0, 0, 0, 0]) };
        }
        // Somebody else's by now.
        near::map_empty(base & !(BLOCK - 1), PAGE).unwrap();
        landings.map_again();
        assert_eq!(landings.jumps.keys().copied().collect::<Vec<_>>(), places[1..]);
        assert_eq!(places[1..].iter().map(|at| bytes(*at)).collect::<Vec<_>>(), before[1..]);
    }
}
